#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwright {

// The right to write a store. It is an flock(2) on the file `<store>.lock`, which the kernel
// releases when the process ends, for any reason. The file stays; deleting it would let two
// processes lock two files. It also records whether its last holder ended in order since this
// machine booted.
class StoreLock {
 public:
  // Polls for up to `wait`. If another process holds the lock, returns UNAVAILABLE with reason
  // STORE_IN_USE and names the holder by what it wrote into the file (its pid and its own `who`).
  static absl::StatusOr<StoreLock> Acquire(const std::string& store_path, std::string_view who,
                                           std::chrono::milliseconds wait);

  StoreLock() = default;  // holds nothing
  StoreLock(StoreLock&& other) noexcept;
  StoreLock& operator=(StoreLock&& other) noexcept;
  ~StoreLock();

  // Returns true if the previous holder of the lock released it by ReleaseInOrder and the
  // destructor, and the machine has not been rebooted since.
  [[nodiscard]] bool EndedInOrder() const { return ended_in_order_; }
  // Makes the destruction of this object count as an end in order, which the next holder learns.
  void ReleaseInOrder() { releases_in_order_ = true; }

 private:
  explicit StoreLock(int descriptor) : descriptor_(descriptor) {}
  void Release();

  int descriptor_ = -1;  // as from open(2): negative if none
  bool ended_in_order_ = false;
  bool releases_in_order_ = false;
};

}  // namespace meshwright

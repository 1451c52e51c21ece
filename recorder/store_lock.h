#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwright {

// The right to write a store: an flock(2) on the file `<store>.lock`, which the kernel drops with
// the process, however it ends. The file stays; deleting it would let two processes lock two files.
// It also tells how its last holder ended: in order since this machine was started, or otherwise.
class StoreLock {
 public:
  // Polls up to `wait`. Taken by another process: UNAVAILABLE with reason STORE_IN_USE, naming the
  // holder by what it wrote into the file (its pid and its own `who`).
  static absl::StatusOr<StoreLock> Acquire(const std::string& store_path, std::string_view who,
                                           std::chrono::milliseconds wait);

  StoreLock() = default;  // holds nothing
  StoreLock(StoreLock&& other) noexcept;
  StoreLock& operator=(StoreLock&& other) noexcept;
  ~StoreLock();

  // Whether who held the lock before let it go by ReleaseInOrder and a destructor, and the machine
  // has not been started anew since.
  [[nodiscard]] bool EndedInOrder() const { return ended_in_order_; }
  // From now on the end of this object is an end in order, to be told to the next holder.
  void ReleaseInOrder() { releases_in_order_ = true; }

 private:
  explicit StoreLock(int descriptor) : descriptor_(descriptor) {}
  void Release();

  int descriptor_ = -1;  // as open(2) has it: negative is none
  bool ended_in_order_ = false;
  bool releases_in_order_ = false;
};

}  // namespace meshwright

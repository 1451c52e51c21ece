#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwright {

// The right to write a store: an flock(2) on the file `<store>.lock`, which the kernel drops with
// the process, however it ends. The file stays; deleting it would let two processes lock two files.
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

 private:
  explicit StoreLock(int descriptor) : descriptor_(descriptor) {}
  int descriptor_ = -1;  // as open(2) has it: negative is none
};

}  // namespace meshwright

#pragma once

#include <chrono>
#include <cstdint>

namespace meshwright {

// Returns the time of the wall clock in milliseconds since 1970-01-01 UTC, with which the store's
// rows are dated.
inline std::int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace meshwright

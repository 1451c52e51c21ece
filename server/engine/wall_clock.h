#pragma once

#include <chrono>
#include <cstdint>

namespace meshwright {

// Returns the time of the wall clock, with which rows of the store are dated, in milliseconds since
// 1970-01-01 UTC.
inline std::int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace meshwright

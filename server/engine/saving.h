#pragma once

#include <chrono>
#include <cstdint>

namespace meshwright {

// Measurements and answers are too dear to be lost to a store that is busy or full for a moment:
// the number of attempts to save them, and the pause before each further one.
inline constexpr int kSaveAttempts = 5;
inline constexpr std::chrono::milliseconds kSavePause(200);

// Returns the wall clock's time since 1970-01-01 UTC, with which the store's rows are dated.
inline std::int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace meshwright

#pragma once

#include <chrono>
#include <cstdint>

namespace meshwright {

// What was measured or answered is too dear to be lost to a store that is busy or full for a
// moment: so often it is saved again, after a pause each.
inline constexpr int kSaveAttempts = 5;
inline constexpr std::chrono::milliseconds kSavePause(200);

// Of the wall clock, since 1970-01-01 UTC: what the store's rows are dated with.
inline std::int64_t NowMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace meshwright

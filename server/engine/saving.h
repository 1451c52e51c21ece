#pragma once

#include <chrono>

namespace meshwright {

// Measurements and answers are too dear to be lost to a store that is busy or full for a moment:
// the number of attempts to save them, and the pause before each further one.
inline constexpr int kSaveAttempts = 5;
inline constexpr std::chrono::milliseconds kSavePause(200);

}  // namespace meshwright

#pragma once

#include <chrono>

namespace meshwright {

// Measurements and answers are too expensive to lose because a store is busy or full for a moment.
// These are the number of attempts to save them and the pause between two attempts.
inline constexpr int kSaveAttempts = 5;
inline constexpr std::chrono::milliseconds kSavePause(200);

}  // namespace meshwright

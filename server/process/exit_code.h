#pragma once

namespace meshwright {

// The exit codes of all programs. Scripts rely on them, so their meaning never changes.
inline constexpr int kExitDone = 0;
inline constexpr int kExitInternal = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitInvalidInput = 3;
inline constexpr int kExitInfeasible = 4;
inline constexpr int kExitNotFound = 5;
inline constexpr int kExitConflict = 6;
inline constexpr int kExitQuota = 7;
inline constexpr int kExitUnavailable = 8;
inline constexpr int kExitDeadline = 9;
inline constexpr int kExitTrialsFailed = 10;
inline constexpr int kExitInterrupted = 130;

}  // namespace meshwright

#pragma once

#include "absl/status/status.h"

namespace meshwright {

// The contract's table; programs match on it.
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

int ExitCode(const absl::Status& status);

}  // namespace meshwright

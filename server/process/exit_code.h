#pragma once

namespace meshwright {

// The exit codes of all programs. Scripts rely on them, so their meaning never changes.
inline constexpr int kExitDone = 0;      // done
inline constexpr int kExitInternal = 1;  // a mistake in Meshwright itself; please report it
inline constexpr int kExitUsage = 2;     // a command or flag that is not known, or not allowed here
inline constexpr int kExitInvalidInput = 3;   // an input or a question that is not valid
inline constexpr int kExitInfeasible = 4;     // no plan fits
inline constexpr int kExitNotFound = 5;       // a file, study or chip that was named does not exist
inline constexpr int kExitConflict = 6;       // the current state does not allow the request
inline constexpr int kExitQuota = 7;          // a limit of the server, or a budget, is used up
inline constexpr int kExitUnavailable = 8;    // the server or the store cannot be used now
inline constexpr int kExitDeadline = 9;       // the deadline passed before an answer
inline constexpr int kExitTrialsFailed = 10;  // no trial measured a step, or a check failed
inline constexpr int kExitInterrupted = 130;  // interrupted by a signal

}  // namespace meshwright

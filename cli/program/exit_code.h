#pragma once

#include <string_view>

#include "absl/status/status.h"

namespace meshwright {

// Returns the exit code (server/process/exit_code.h) for a command that ended with this status.
int ExitCode(const absl::Status& status);

// Returns the word for an exit code in JSON answers: done, internal, usage, invalid_input,
// infeasible, not_found, conflict, quota, unavailable, deadline, trials_failed, interrupted.
std::string_view ExitReason(int exit_code);

}  // namespace meshwright

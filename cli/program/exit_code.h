#pragma once

#include "absl/status/status.h"

namespace meshwright {

// Returns the exit code (server/process/exit_code.h) for a command that ended with this status.
int ExitCode(const absl::Status& status);

}  // namespace meshwright

#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// A program to run as a child of this process.
struct SpawnRequest {
  std::vector<std::string> arguments = {};  // the first one is the program's own name
  std::string program = {};  // path, or a name to be found in PATH; empty: the first argument
  std::optional<std::vector<std::string>> environment = {};  // "NAME=value"; absent: our own
  std::string folder = {};                                   // to run in; empty: our own
  // The child's descriptors, each with the one of ours that it stands for. The child inherits
  // standard streams that are not named here.
  std::map<int, int> descriptors = {};
  bool has_own_session = false;
};

// Starts a program and returns its process id; the caller reaps it. NOT_FOUND if there is no such
// program, UNAVAILABLE if it cannot be started. The child hears signals as it would from a shell:
// programs that wait for signals on a thread block them, and children inherit that.
//
// posix_spawn makes the child, since Boost.Process 1.74 can neither give it a session nor a folder
// without running code of ours between fork and exec, which is unsafe beside other threads.
absl::StatusOr<int> Spawn(const SpawnRequest& request);

// Returns a child's exit code as a shell has it: 128 + the signal if one ended it. `status` is what
// waitpid(2) tells.
int ExitCodeOf(int status);

}  // namespace meshwright

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
  std::string folder = {};                                   // working folder; empty: our own
  // Maps each descriptor of the child to the one of ours that it duplicates. The child inherits
  // standard streams that are not named here.
  std::map<int, int> descriptors = {};
  bool has_own_session = false;
};

// Starts a program and returns its process id; the caller reaps it. Returns NOT_FOUND if there is
// no such program, and UNAVAILABLE if it cannot be started. The child receives signals as it would
// from a shell, although programs that wait for signals on a thread block them and children inherit
// that.
//
// The child is made by posix_spawn, because Boost.Process 1.74 can give it neither a session nor a
// folder without running code of ours between fork and exec, which is unsafe if there are other
// threads.
absl::StatusOr<int> Spawn(const SpawnRequest& request);

// Returns a child's exit code as a shell reports it: 128 + the signal if one ended it. `status`
// comes from waitpid(2).
int ExitCodeOf(int status);

}  // namespace meshwright

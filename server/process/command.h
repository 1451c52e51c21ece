#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"

namespace meshwright {

struct CommandOutput {
  int exit_code = 0;  // 128 + the signal if one ended it
  std::string out = {};
  std::string err = {};
};

// Runs a program (found in PATH) to its end with `input` as its standard input. Returns NOT_FOUND
// if there is no such program, and DEADLINE_EXCEEDED if it has not ended by `limit`; it is then
// killed. An exit code other than 0 is not an error of this call.
absl::StatusOr<CommandOutput> RunCommand(const std::vector<std::string>& arguments,
                                         std::string_view input, Seconds limit);

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/import/text/setting.h"
#include "server/tuner/import/text/shell_script.h"

namespace meshwright {

// The command of a script that starts the training.
struct LaunchCommand {
  std::vector<Setting> launcher = {};   // options of torchrun and the like, before the program
  std::string program = {};             // "pretrain_gpt.py"; empty: the text has only arguments
  std::vector<Setting> arguments = {};  // "--flag value", with dashes for underscores
  std::vector<Setting> overrides = {};  // "key=value", as they stand
  std::vector<std::string> files = {};  // configuration files among the words
};

// Returns the one training command of a script. INVALID_ARGUMENT if there is none, or if several
// commands differ.
absl::StatusOr<LaunchCommand> FindLaunchCommand(const ShellScript& script, std::string_view file);

}  // namespace meshwright

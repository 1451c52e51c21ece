#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/question/launch_config.h"

namespace meshwright {

// A command of a script with its words expanded; words may have marks (UnresolvedIn).
struct ShellCommand {
  std::vector<std::string> words = {};
  int line = 0;
};

struct ShellScript {
  std::vector<ShellCommand> commands = {};  // in the order in which they would run
  std::vector<ConfigFile> files = {};       // files that the script writes from here-documents
  std::map<std::string, std::string> batch = {};      // options of "#SBATCH" lines
  std::map<std::string, std::string> variables = {};  // variables with one text as their value
  std::vector<std::string> notes = {};
};

// Reads a file that a script names, as the script's folder has it.
using OpenFile = std::function<absl::StatusOr<std::string>(const std::string& path)>;

// Follows a shell script without executing anything: assignments, lists, conditions that only
// compare values, here-documents, sourced files. A condition that cannot be decided counts as
// false, and loops are skipped; a note names each. `stated` are values of variables from outside.
ShellScript ReadShellScript(std::string_view text, std::string_view file,
                            const std::map<std::string, std::string>& stated,
                            const OpenFile& open_file);

}  // namespace meshwright

#include "tests/detect/recorded_tools.h"

#include <utility>
#include <vector>

namespace meshwright {

CommandRunner Recorded(std::map<std::string, std::string> outputs) {
  return [outputs = std::move(outputs)](
             const std::vector<std::string>& arguments) -> absl::StatusOr<CommandOutput> {
    std::string command;
    for (const std::string& word : arguments) command += (command.empty() ? "" : " ") + word;
    const auto found = outputs.find(command);
    if (found == outputs.end()) return absl::NotFoundError(arguments.front() + ": no such program");
    return CommandOutput{.out = found->second};
  };
}

}  // namespace meshwright

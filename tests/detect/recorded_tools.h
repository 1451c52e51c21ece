#pragma once

#include <map>
#include <string>

#include "cli/detect/detected_cluster.h"

namespace meshwright {

// Returns a runner that answers with the recorded output of a command, by its words joined with
// blanks, and NOT_FOUND for every other command, as if its program were not installed.
CommandRunner Recorded(std::map<std::string, std::string> outputs);

}  // namespace meshwright

#pragma once

#include <string>

#include "cli/help/command_tree.h"

namespace meshwright {

// Each returns the script with which a shell completes commands, flags and the values of closed
// sets; other values are files.
std::string BashCompletion(const CommandEntry& root);
std::string ZshCompletion(const CommandEntry& root);
std::string FishCompletion(const CommandEntry& root);

}  // namespace meshwright

#pragma once

#include <string>

#include "cli/help/command_tree.h"

namespace meshwright {

// Returns the manual page of a command in the macros of man(7). `root` has the flags of every
// command; the first line of `version` is "meshwright 0.1.0".
std::string ManPage(const CommandEntry& command, const CommandEntry& root,
                    const std::string& version);

// Returns the name of a page without its section: "meshwright-study-show".
std::string ManPageName(const CommandEntry& command);

}  // namespace meshwright

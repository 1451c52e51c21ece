#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Returns the answer of a program to --version: its name and version, and what it is made of, each
// on a line. There is no time of the build in it, so that the same source gives the same program.
std::string VersionText(std::string_view program);

}  // namespace meshwright

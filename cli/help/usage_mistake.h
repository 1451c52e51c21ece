#pragma once

#include <string>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace meshwright {

// Returns what is wrong with a command line that could not be parsed, one line for each mistake,
// with the command or flag that was most likely meant, and last where to read more.
std::string UsageMistake(const CLI::App& root, const CLI::ParseError& error);

}  // namespace meshwright

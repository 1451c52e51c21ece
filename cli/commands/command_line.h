#pragma once

#include <string>

#include "cli/program/program.h"

namespace CLI {
class App;
}

namespace meshwright {

// Adds the flags of every command and all commands, with their help. `version` is what --version
// prints; `program` must outlive `app`.
void AddCommandLine(CLI::App& app, const std::string& version, Program& program);

}  // namespace meshwright

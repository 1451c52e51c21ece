#pragma once

#include "cli/program/program.h"

namespace CLI {
class App;
}

namespace meshwright {

// Adds the command `place`. `program` must outlive `app`.
void AddPlaceCommand(CLI::App& app, Program& program);

}  // namespace meshwright

#pragma once

#include "cli/program/program.h"

namespace CLI {
class App;
}

namespace meshwright {

// Adds `model tests` and `model calibrate` to the command group `model`.
void AddModelCalibration(CLI::App& group, Program& program);

}  // namespace meshwright

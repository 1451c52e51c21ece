#pragma once

#include "cli/program/program.h"

namespace meshwright {

// `model tests` and `model calibrate`: commands of the group `model`.
void AddModelCalibration(CLI::App& group, Program& program);

}  // namespace meshwright

#pragma once

#include <string>

#include "meshwright/v1/estimate.pb.h"

namespace meshwright {

// Shows people what measured runs have changed and which run is most alike, in two indented lines.
std::string LearntLines(const v1::Calibration& learnt);

}  // namespace meshwright

#pragma once

#include <string>

#include "meshwright/v1/estimate.pb.h"

namespace meshwright {

// For people: what measured runs have changed, and the one that is most alike; two indented lines.
std::string LearntLines(const v1::Calibration& learnt);

}  // namespace meshwright

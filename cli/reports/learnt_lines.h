#pragma once

#include <string>

#include "meshwright/v1/estimate.pb.h"

namespace meshwright {

// Shows people what measured runs have changed and which run is most alike, in indented
// lines of at most `columns` columns.
std::string LearntLines(const v1::Calibration& learnt, int columns);

}  // namespace meshwright

#pragma once

#include <string>

#include "meshwright/v1/placement.pb.h"

namespace meshwright {

// Shows a placement to people in lines of at most `columns`.
std::string PlacementReport(const v1::PlacementAnswer& answer, int columns);

}  // namespace meshwright

#pragma once

#include <string_view>
#include <vector>

#include "search_space/spec/plan.h"

namespace meshwright {

// Returns the features of a plan whose cost no measured run has confirmed, in the words of the
// plan's fields (docs/choice.md).
std::vector<std::string_view> UnmeasuredFeatures(const ParallelPlan& plan);

// Returns how many of the plan's fields differ.
int DistanceOf(const ParallelPlan& a, const ParallelPlan& b);

}  // namespace meshwright

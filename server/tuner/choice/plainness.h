#pragma once

#include <string_view>
#include <vector>

#include "search_space/spec/plan.h"

namespace meshwright {

// Returns the features of a plan whose cost hardly any measured run has confirmed at this length,
// in the words of the plan's fields (docs/choice.md).
std::vector<std::string_view> UnmeasuredFeatures(const ParallelPlan& plan, int sequence_length);

// Returns how far a plan is from those that people publish: 1 for tensor parallelism that does not
// split the sequence, and 1 for each doubling of the virtual stages.
int Unusualness(const ParallelPlan& plan);

// Returns how many of the plan's fields differ.
int DistanceOf(const ParallelPlan& a, const ParallelPlan& b);

}  // namespace meshwright

#pragma once

#include <string_view>
#include <vector>

#include "search_space/space/space_options.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns the features of a plan whose cost hardly any measured run has confirmed at this length,
// in words for people (docs/choice.md).
std::vector<std::string_view> UnmeasuredFeatures(const ParallelPlan& plan, int sequence_length);

// Returns the part of a space whose plans have no such feature. Dimensions that the user has chosen
// stay as they are.
SpaceOptions WithoutUnmeasured(SpaceOptions space, int sequence_length);

// Returns how far a plan is from those that people publish: 1 for tensor parallelism that does not
// split the sequence, and 1 for each doubling of the number of stages, which counts virtual ones.
int Unusualness(const ParallelPlan& plan);

// Returns how far two plans are apart: the doublings between their sizes, and 1 for each other
// field that differs.
double DistanceOf(const ParallelPlan& a, const ParallelPlan& b);

}  // namespace meshwright

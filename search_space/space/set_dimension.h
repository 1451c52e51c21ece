#pragma once

#include "search_space/space/dimensions.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// What values of dimensions mean depends on this.
struct SpaceSize {
  const SpaceOptions& options;
  int device_count = 1;
  int layers = 0;
};

// Gives a dimension of `plan` a value that SearchSpace::Values has, and all later dimensions the
// value that they have at the root of the space.
void SetDimension(Dimension dimension, int value, const SpaceSize& size, ParallelPlan& plan);

}  // namespace meshwright

#pragma once

#include "search_space/space/dimensions.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The sizes that the values of some dimensions depend on.
struct SpaceSize {
  const SpaceOptions& options;
  int device_count = 1;
  int layers = 0;
};

// Sets a dimension of `plan` to a value that SearchSpace::Values lists, and all later dimensions to
// the values that they have at the root of the space.
void SetDimension(Dimension dimension, int value, const SpaceSize& size, ParallelPlan& plan);

}  // namespace meshwright

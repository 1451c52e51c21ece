#pragma once

#include <span>
#include <vector>

#include "estimator/fit/measured.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

// The square-root form (docs/cost_model.md "Collectives") that comes nearest to the points, which
// are of one kind and one number of ranks, and their curve: the median time of each size. `points`
// is not empty.
CollectiveFit FitCollective(std::span<const MeasuredCollective> points);

// Relative errors at every second size, of those from `least` on, by the curve of the others; none
// where there are fewer than five sizes.
std::vector<double> CurveHeldOutErrors(std::span<const MeasuredCollective> points,
                                       Bytes least = {});

}  // namespace meshwright

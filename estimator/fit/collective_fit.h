#pragma once

#include <span>
#include <vector>

#include "estimator/fit/measured.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

// Fits the square-root form (docs/cost_model/collectives.md) to points of one kind and one number
// of ranks, and adds their curve: the median time of each size. `points` is not empty.
CollectiveFit FitCollective(std::span<const MeasuredCollective> points);

// Returns the relative errors at every second size of at least `least`, by the curve of the other
// sizes; empty if there are fewer than five sizes.
std::vector<double> CurveHeldOutErrors(std::span<const MeasuredCollective> points,
                                       Bytes least = {});

}  // namespace meshwright

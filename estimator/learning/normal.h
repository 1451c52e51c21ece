#pragma once

#include <optional>

namespace meshwright {

struct Normal {
  double mean = 0;
  double variance = 0;
};

// Returns the mean and the variance of a normal quantity that is known to lie above `low` and, if
// stated, below `high`. The variance of `belief` is > 0, and low < high. Integrates the density by
// Simpson's rule, so that bounds far away from the mean need no special cases.
Normal Bounded(const Normal& belief, double low, std::optional<double> high);

}  // namespace meshwright

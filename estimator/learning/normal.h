#pragma once

#include <optional>

namespace meshwright {

struct Normal {
  double mean = 0;
  double variance = 0;
};

// Returns the mean and the variance of a quantity that is known to lie above `low` and, if stated,
// below `high`. The variance of `belief` is > 0, and low < high. What was believed has the mean and
// the central 80 % of `belief`, but the tails of Student's t with 4 degrees of freedom: under a
// normal distribution, a bound that nobody expected would be the value itself.
Normal Bounded(const Normal& belief, double low, std::optional<double> high);

}  // namespace meshwright

#pragma once

#include <functional>
#include <span>
#include <vector>

namespace meshwright {

// A parameter of a fit: the value where the search begins, and the limits that it keeps.
struct FitParameter {
  double low = 0;
  double start = 0;
  double high = 0;
};

// Returns the values at which `cost` is least, near the starts of `parameters`; the same input
// gives the same values. Uses NLopt's Subplex (T. Rowan, "Functional Stability Analysis of
// Numerical Algorithms", 1990), which needs no gradient: the fitted forms have corners.
std::vector<double> Minimise(const std::function<double(std::span<const double>)>& cost,
                             std::span<const FitParameter> parameters);

}  // namespace meshwright

#pragma once

#include <functional>
#include <span>
#include <vector>

namespace meshwright {

// A parameter of a fit: where the search begins, and what it may not leave.
struct FitParameter {
  double low = 0;
  double start = 0;
  double high = 0;
};

// The values at which `cost` is least, near `parameters`' starts; the same for the same input. By
// NLopt's Subplex (T. Rowan, "Functional Stability Analysis of Numerical Algorithms", 1990), which
// needs no gradient: the forms that are fitted have corners.
std::vector<double> Minimise(const std::function<double(std::span<const double>)>& cost,
                             std::span<const FitParameter> parameters);

}  // namespace meshwright

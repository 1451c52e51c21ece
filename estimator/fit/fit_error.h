#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "estimator/fit/measured.h"

namespace meshwright {

// Of a list of relative errors; all zero of none.
FitError ErrorOf(std::vector<double> errors);

// What one point adds to the cost of a fit whose result differs by this logarithm of a ratio: its
// square while it is small, its size beyond, so that a few odd points do not lead.
inline double PointCost(double log_ratio) {
  constexpr double kSmall = 0.05;
  return kSmall * (std::sqrt(1 + (log_ratio / kSmall) * (log_ratio / kSmall)) - 1);
}

inline constexpr int kFitFolds = 5;

// Errors of points that a fit of the others did not see: `fold_of` says in which of kFitFolds
// rounds a point is held out. `Fit` turns points into a model, `Time` predicts by it.
template <typename Point, typename Fit, typename Time>
FitError HeldOutError(std::span<const Point> points, const std::vector<int>& fold_of,
                      const Fit& fit, const Time& time) {
  std::vector<double> errors;
  for (int fold = 0; fold < kFitFolds; ++fold) {
    std::vector<Point> seen;
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (fold_of[i] != fold) seen.push_back(points[i]);
    }
    if (seen.empty() || seen.size() == points.size()) continue;
    const auto model = fit(std::span<const Point>(seen));
    for (std::size_t i = 0; i < points.size(); ++i) {
      if (fold_of[i] != fold) continue;
      errors.push_back(std::abs(time(model, points[i]) / points[i].time - 1));
    }
  }
  return ErrorOf(std::move(errors));
}

}  // namespace meshwright

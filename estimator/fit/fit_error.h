#pragma once

#include <cmath>
#include <span>
#include <vector>

#include "estimator/fit/measured.h"

namespace meshwright {

// Summarises a list of relative errors; all figures are zero if it is empty.
FitError ErrorOf(std::vector<double> errors);

// Returns what one point adds to the cost of a fit that is off by this logarithm of a ratio: the
// square of small ones and the size of large ones, so that a few odd points do not lead the fit.
inline double PointCost(double log_ratio) {
  constexpr double kSmall = 0.05;
  return kSmall * (std::sqrt(1 + (log_ratio / kSmall) * (log_ratio / kSmall)) - 1);
}

inline constexpr int kFitFolds = 5;

// Returns the errors at points that the fit did not see: `fold_of` says in which of kFitFolds
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

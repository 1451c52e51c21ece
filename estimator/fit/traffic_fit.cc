#include "estimator/fit/traffic_fit.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "estimator/fit/fit_error.h"
#include "estimator/fit/minimise.h"
#include "estimator/terms/stream.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

Seconds TrafficTime(const TrafficFit& fit, Bytes bytes, const ChipSpec& chip) {
  ChipSpec fitted;
  fitted.memory_bandwidth = chip.memory_bandwidth;
  fitted.cache = chip.cache;
  fitted.memory_bound_fixed = fit.fixed;
  fitted.cache_bandwidth_ratio = fit.cache_bandwidth_ratio;
  return StreamTime(bytes, fit.efficiency, fitted);
}

TrafficFit FitTraffic(std::span<const MeasuredTraffic> points, const ChipSpec& chip) {
  const bool tells_cache = std::ranges::any_of(
      points, [&chip](const MeasuredTraffic& p) { return p.bytes.count < chip.cache.count / 2; });
  const auto decode = [tells_cache](std::span<const double> x) {
    return TrafficFit{.fixed = Seconds(std::exp(x[0])),
                      .efficiency = std::exp(x[1]),
                      .cache_bandwidth_ratio = tells_cache ? std::exp(x[2]) : 1};
  };
  const auto cost = [&](std::span<const double> x) {
    const TrafficFit fit = decode(x);
    double sum = 0;
    for (const MeasuredTraffic& p : points) {
      sum += PointCost(std::log(TrafficTime(fit, p.bytes, chip) / p.time));
    }
    return sum;
  };
  std::vector<FitParameter> parameters = {
      {.low = std::log(1e-8), .start = std::log(3e-6), .high = std::log(1e-3)},
      {.low = std::log(0.01), .start = std::log(0.65), .high = std::log(2)}};
  if (tells_cache) parameters.push_back({.low = 0, .start = std::log(2), .high = std::log(30)});
  return decode(Minimise(cost, parameters));
}

FitError TrafficHeldOutError(std::span<const MeasuredTraffic> points, const ChipSpec& chip) {
  std::vector<int> folds;
  for (std::size_t i = 0; i < points.size(); ++i) {
    folds.push_back(static_cast<int>(i % kFitFolds));
  }
  const auto fit = [&chip](std::span<const MeasuredTraffic> seen) {
    return FitTraffic(seen, chip);
  };
  const auto time = [&chip](const TrafficFit& model, const MeasuredTraffic& point) {
    return TrafficTime(model, point.bytes, chip);
  };
  return HeldOutError(points, folds, fit, time);
}

}  // namespace meshwright

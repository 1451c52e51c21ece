#include "estimator/fit/collective_fit.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "estimator/fit/fit_error.h"
#include "estimator/fit/minimise.h"
#include "estimator/terms/collective.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {
namespace {

constexpr std::size_t kLeastSizes = 5;  // fewer sizes say nothing about those in between

CollectiveFit WithConstants(const CollectiveFit& like, std::span<const double> x) {
  CollectiveFit fit = like;
  fit.alpha = Seconds(std::exp(x[0]));
  fit.bandwidth = {std::exp(x[1])};
  fit.half = RoundedBytes(std::exp(x[2]));
  return fit;
}

std::vector<CollectivePoint> CurveOf(std::span<const MeasuredCollective> points) {
  std::map<std::int64_t, std::vector<Seconds>> times;
  for (const MeasuredCollective& p : points) times[p.bytes.count].push_back(p.time);
  std::vector<CollectivePoint> curve;
  for (auto& [bytes, all] : times) {
    std::sort(all.begin(), all.end());
    curve.push_back({.bytes = {bytes}, .time = all[all.size() / 2]});
  }
  return curve;
}

}  // namespace

CollectiveFit FitCollective(std::span<const MeasuredCollective> points) {
  CollectiveFit like = {.kind = points.front().kind, .ranks = points.front().ranks};
  const std::vector<CollectivePoint> curve = CurveOf(points);
  const CollectivePoint& last = curve.back();
  const double rate = static_cast<double>(last.bytes.count) / last.time.count();
  const FitParameter parameters[] = {
      {.low = std::log(1e-7), .start = std::log(curve.front().time.count()), .high = 0},
      {.low = std::log(1e8), .start = std::log(rate), .high = std::log(1e14)},
      {.low = 0, .start = std::log(1e6), .high = std::log(1e11)}};
  const auto cost = [&](std::span<const double> x) {
    const CollectiveFit fit = WithConstants(like, x);
    double sum = 0;
    for (const CollectivePoint& point : curve) {
      sum += PointCost(std::log(FitTime(fit, point.bytes) / point.time));
    }
    return sum;
  };
  like = WithConstants(like, Minimise(cost, parameters));
  like.curve = curve;
  return like;
}

std::vector<double> CurveHeldOutErrors(std::span<const MeasuredCollective> points, Bytes least) {
  std::set<std::int64_t> sizes;
  for (const MeasuredCollective& p : points) sizes.insert(p.bytes.count);
  if (sizes.size() < kLeastSizes) return {};
  std::set<std::int64_t> held_out;  // every second size, but neither end
  for (auto at = std::next(sizes.begin()); at != sizes.end() && std::next(at) != sizes.end();) {
    held_out.insert(*at);
    if (++at != sizes.end()) ++at;
  }
  std::vector<MeasuredCollective> seen;
  for (const MeasuredCollective& p : points) {
    if (!held_out.contains(p.bytes.count)) seen.push_back(p);
  }
  const CollectiveFit fit = FitCollective(seen);
  std::vector<double> errors;
  for (const MeasuredCollective& p : points) {
    if (!held_out.contains(p.bytes.count) || p.bytes < least) continue;
    errors.push_back(std::abs(FitTime(fit, p.bytes) / p.time - 1));
  }
  return errors;
}

}  // namespace meshwright

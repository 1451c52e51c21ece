#include "estimator/learning/normal.h"

#include <algorithm>
#include <cmath>

namespace meshwright {
namespace {

constexpr int kSteps = 400;  // even
// Standard deviations from the most likely value at which the density is negligible.
constexpr double kTail = 9;

}  // namespace

Normal Bounded(const Normal& belief, double low, std::optional<double> high) {
  const double sigma = std::sqrt(belief.variance);
  const double bottom = (low - belief.mean) / sigma;
  const double begin = std::max(bottom, -kTail);
  // Beyond a bound in the tail, the density falls as exp(-begin x).
  double end = std::max(begin, 0.0) + kTail / std::max(1.0, begin / kTail);
  if (high.has_value()) end = std::min(end, (*high - belief.mean) / sigma);
  const double likeliest = std::clamp(0.0, begin, end);
  const double step = (end - begin) / kSteps;
  double mass = 0;
  double first = 0;
  double second = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const double x = begin + i * step;
    const int simpson = i == 0 || i == kSteps ? 1 : 2 + 2 * (i % 2);
    const double weight = simpson * std::exp((likeliest * likeliest - x * x) / 2);
    mass += weight;
    first += weight * (x - begin);
    second += weight * (x - begin) * (x - begin);
  }
  const double mean = first / mass;
  return {.mean = belief.mean + sigma * (begin + mean),
          .variance = belief.variance * (second / mass - mean * mean)};
}

}  // namespace meshwright

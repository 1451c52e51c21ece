#include "estimator/learning/normal.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace meshwright {
namespace {

// Student's t has 4 degrees of freedom. With x = 2 tan(angle), its density, the density times x and
// the density times x^2 are cos^3, 2 sin cos^2 and 4 sin^2 cos of the angle.
constexpr double kRoot = 2;  // of the degrees of freedom

// Quantiles at 0.9 of the normal distribution and of Student's t.
constexpr double kNormalQuantile = 1.281552;
constexpr double kStudentQuantile = 1.533206;

struct Moments {
  double mass = 0;
  double first = 0;
  double second = 0;
};

// Integrates from 0 to the angle.
Moments UpTo(double angle) {
  const double sine = std::sin(angle);
  const double cosine = std::cos(angle);
  const double cube = sine * sine * sine / 3;
  return {.mass = sine - cube,
          .first = kRoot * (1 - cosine * cosine * cosine) / 3,
          .second = kRoot * kRoot * cube};
}

}  // namespace

Normal Bounded(const Normal& belief, double low, std::optional<double> high) {
  const double scale = std::sqrt(belief.variance) * kNormalQuantile / kStudentQuantile;
  const auto angle = [&](double value) {
    return std::atan((value - belief.mean) / (kRoot * scale));
  };
  const Moments below = UpTo(angle(low));
  const Moments above = UpTo(high.has_value() ? angle(*high) : std::numbers::pi / 2);
  const double mass = above.mass - below.mass;
  const double mean = (above.first - below.first) / mass;
  const double square = (above.second - below.second) / mass;
  return {.mean = belief.mean + scale * mean,
          .variance = scale * scale * std::max(square - mean * mean, 0.0)};
}

}  // namespace meshwright

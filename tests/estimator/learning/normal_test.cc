#include "estimator/learning/normal.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>
#include <optional>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(BoundedNormalTest, ABoundFarBelowChangesNothing) {
  const Normal bounded = Bounded({.mean = 0.3, .variance = 0.04}, -10, std::nullopt);
  EXPECT_NEAR(bounded.mean, 0.3, 1e-9);
  EXPECT_NEAR(bounded.variance, 0.04, 1e-9);
}

// The half-normal distribution has the mean sqrt(2 / pi) and the variance 1 - 2 / pi.
TEST(BoundedNormalTest, ABoundAtTheMeanLeavesAHalfNormal) {
  const Normal bounded = Bounded({.mean = 0, .variance = 1}, 0, std::nullopt);
  EXPECT_NEAR(bounded.mean, std::sqrt(2 / std::numbers::pi), 1e-6);
  EXPECT_NEAR(bounded.variance, 1 - 2 / std::numbers::pi, 1e-6);
}

// Beyond a bound in the tail the density falls like exp(-bound x), so that little is added: Mills'
// ratio at 20 gives 20.0498, at 3 3.2831.
TEST(BoundedNormalTest, ABoundInTheTailIsNearlyReached) {
  EXPECT_NEAR(Bounded({.mean = 0, .variance = 1}, 20, std::nullopt).mean, 20.0498, 1e-3);
  EXPECT_NEAR(Bounded({.mean = 0, .variance = 1}, 3, std::nullopt).mean, 3.2831, 1e-3);
}

TEST(BoundedNormalTest, TwoBoundsHoldIt) {
  const Normal narrow = Bounded({.mean = 0, .variance = 1}, 4, 4.01);
  EXPECT_NEAR(narrow.mean, 4.005, 1e-3);
  EXPECT_NEAR(narrow.variance, 0.01 * 0.01 / 12, 1e-6);
  const Normal even = Bounded({.mean = 1, .variance = 4}, -1, 3);
  EXPECT_NEAR(even.mean, 1, 1e-9);
  EXPECT_LT(even.variance, 4);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

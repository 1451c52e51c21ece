#include "estimator/learning/normal.h"

#include <gtest/gtest.h>

#include <optional>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// With this variance, what is believed is Student's t of 4 degrees of freedom: their quantiles at
// 0.9 are 1.281552 and 1.533206.
constexpr Normal kStudent = {.mean = 0, .variance = 1.431291};

// The variance of Student's t is 4 / (4 - 2).
TEST(BoundedTest, ABoundFarBelowLeavesTheBelief) {
  const Normal bounded = Bounded(kStudent, -1e6, std::nullopt);
  EXPECT_NEAR(bounded.mean, 0, 1e-6);
  EXPECT_NEAR(bounded.variance, 2, 1e-3);
  EXPECT_NEAR(Bounded({.mean = 0.3, .variance = kStudent.variance}, -1e6, std::nullopt).mean, 0.3,
              1e-6);
}

// The mean distance of Student's t from 0 is 2 Gamma(2.5) / (sqrt(pi) Gamma(2)) * 2 / 3 = 1.
TEST(BoundedTest, ABoundAtTheMeanLeavesTheUpperHalf) {
  const Normal bounded = Bounded(kStudent, 0, std::nullopt);
  EXPECT_NEAR(bounded.mean, 1, 1e-5);
  EXPECT_NEAR(bounded.variance, 2 - 1, 1e-5);
}

// Far out, the density falls as x^-5, whose mean beyond a bound is 4 / 3 of the bound, and whose
// variance 2 / 9 of its square.
TEST(BoundedTest, BeyondABoundInTheTailMuchIsPossible) {
  const Normal bounded = Bounded(kStudent, 100, std::nullopt);
  EXPECT_NEAR(bounded.mean / 100, 4.0 / 3, 1e-3);
  EXPECT_NEAR(bounded.variance / 1e4, 2.0 / 9, 1e-3);
}

TEST(BoundedTest, TwoBoundsHoldIt) {
  const Normal narrow = Bounded(kStudent, 4, 4.01);
  EXPECT_NEAR(narrow.mean, 4.005, 1e-3);
  EXPECT_NEAR(narrow.variance, 0.01 * 0.01 / 12, 1e-6);
  const Normal even = Bounded({.mean = 1, .variance = 4}, -1, 3);
  EXPECT_NEAR(even.mean, 1, 1e-9);
  EXPECT_LT(even.variance, 4);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

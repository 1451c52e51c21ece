#include "server/tuner/learning/residual_process.h"

#include <gtest/gtest.h>

#include <cmath>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

PlanFeatures At(double x) { return {x}; }

TEST(FeaturesTest, AreLogarithmsAndShares) {
  const ParallelPlan plan = {
      .tensor_parallel = 4,
      .sequence_parallel = true,
      .pipeline_parallel = 2,
      .data_parallel = 8,
      .micro_batch_size = 16,
      .recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = {3, 6}}};
  // log2 of 16, 4, 2, 1, 1, 8, 1; (3 + 6) of 12 layers
  EXPECT_EQ(FeaturesOf(plan, 12), (PlanFeatures{4, 2, 1, 0, 0, 3, 0, 0.75, 1}));
}

TEST(LikenessTest, FallsWithTheDistance) {
  EXPECT_EQ(Likeness(At(1), At(1)), 1);
  EXPECT_NEAR(Likeness(At(1), At(3)), std::exp(-2), 1e-15);
}

TEST(ResidualProcessTest, OneRunByHand) {
  // Variances 4 + 1 + 1 = 6; covariance of the first two 4 + exp(-1/2), of the first and the far
  // one 4 and nothing of the neighbourhood.
  ResidualProcess process({At(0), At(1), At(40)}, {.all = 2, .neighbours = 1, .own = 1});
  EXPECT_EQ(process.At(0).variance, 6);
  process.Observe(0, 3);
  const double near = 4 + std::exp(-0.5);
  EXPECT_NEAR(process.At(1).mean, near / 6 * 3, 1e-12);
  // 3^2 / 6 is more than was expected: variances grow by (4 + 1.5) / (4 + 1).
  EXPECT_NEAR(process.At(1).variance, 1.1 * (6 - near * near / 6), 1e-12);
  EXPECT_NEAR(process.At(2).mean, 4.0 / 6 * 3, 1e-12);
  EXPECT_EQ(process.At(0).mean, 3);
  EXPECT_EQ(process.At(0).variance, 0);
}

TEST(ResidualProcessTest, TwoRunsAreTheSolvedSystem) {
  ResidualProcess process({At(0), At(1), At(2)}, {.all = 2, .neighbours = 1, .own = 1});
  process.Observe(0, 3);
  process.Observe(2, -1);
  // K of the two runs [6, b; b, 6] with b = 4 + exp(-2), k of the one between [a, a] with
  // a = 4 + exp(-1/2): K^-1 [a, a] = a / (6 + b) [1, 1].
  const double a = 4 + std::exp(-0.5);
  const double b = 4 + std::exp(-2.0);
  EXPECT_NEAR(process.At(1).mean, a / (6 + b) * (3 - 1), 1e-12);
  // The second run is off by -1 - 3 b / 6 where 6 - b^2 / 6 is its variance.
  const double surprise = 3.0 * 3 / 6 + std::pow(1 + b / 2, 2) / (6 - b * b / 6);
  EXPECT_NEAR(process.At(1).variance, (4 + surprise) / 6 * (6 - 2 * a * a / (6 + b)), 1e-12);
}

TEST(ResidualProcessTest, RunsAsExpectedLeaveTheSpreadsAlone) {
  ResidualProcess process({At(0), At(40)}, {.all = 2, .neighbours = 1, .own = 1});
  process.Observe(0, 0.5);  // 0.25 / 6 is less than 1
  EXPECT_NEAR(process.At(1).variance, 6 - 16.0 / 6, 1e-12);
}

TEST(ResidualProcessTest, OrderOfRunsDoesNotMatter) {
  ResidualProcess one({At(0), At(1), At(2)}, {.all = 2, .neighbours = 1, .own = 1});
  ResidualProcess other = one;
  one.Observe(0, 3);
  one.Observe(1, 1);
  other.Observe(1, 1);
  other.Observe(0, 3);
  EXPECT_NEAR(one.At(2).mean, other.At(2).mean, 1e-12);
  EXPECT_NEAR(one.At(2).variance, other.At(2).variance, 1e-12);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

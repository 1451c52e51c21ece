#include "estimator/learning/run_residuals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using Runs = std::vector<RunResidual>;

constexpr PlanPoint kHere = {.work = 21, .tensor_parallel = 1, .pipeline_parallel = 1};
constexpr PlanPoint kFar = {.work = 30, .tensor_parallel = 12, .pipeline_parallel = 12};

Runs Equal(int count, double log_ratio, int job = 0, int version = 0) {
  return Runs(static_cast<std::size_t>(count),
              {.log_ratio = log_ratio, .point = kHere, .job = job, .version = version});
}

Runs Together(Runs runs, const Runs& more) {
  runs.insert(runs.end(), more.begin(), more.end());
  return runs;
}

double FactorAt(const Runs& runs, const PlanPoint& point) {
  const FittedResiduals fitted = FitResiduals(runs, kTimePrior);
  return JobLogFactor(fitted) + PlanLogFactor(fitted, point);
}

// 2 sequences x 1024 tokens x 1024 wide over 2 x 2 ranks: 2^(1 + 10 + 10 - 2).
double OpenShareAt(const FittedResiduals& fitted, const PlanPoint& point) {
  return OpenShare(fitted, FactorVariance(fitted, point));
}

TEST(PlanPointTest, ByHand) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 2);
  problem.workload.sequence_length = 1024;
  problem.model.hidden_size = 1024;
  const PlanPoint point = PointOf(
      {.tensor_parallel = 2, .pipeline_parallel = 8, .context_parallel = 2, .micro_batch_size = 2},
      problem.View());
  EXPECT_EQ(point, (PlanPoint{.work = 19, .tensor_parallel = 1, .pipeline_parallel = 3}));
}

TEST(RunResidualsTest, WithoutRunsNothingIsLearnt) {
  const FittedResiduals fitted = FitResiduals({}, kTimePrior);
  EXPECT_EQ(JobLogFactor(fitted), 0);
  EXPECT_EQ(PlanLogFactor(fitted, kHere), 0);
  EXPECT_EQ(OpenShareAt(fitted, kHere), 1);
}

TEST(RunResidualsTest, FewRunsAreDrawnTowardsTheModel) {
  double before = 0;
  for (const int count : {1, 3, 10, 100}) {
    const double factor = FactorAt(Equal(count, 0.1), kHere);
    EXPECT_GT(factor, before) << count;
    EXPECT_LT(factor, 0.1) << count;
    before = factor;
  }
  EXPECT_NEAR(before, 0.1, 0.002);
}

TEST(RunResidualsTest, RunsThatAgreeLeaveLessOpen) {
  double before = 1;
  for (const int count : {1, 3, 10}) {
    const FittedResiduals fitted = FitResiduals(Equal(count, 0.02), kTimePrior);
    EXPECT_LT(OpenShareAt(fitted, kHere), before) << count;
    EXPECT_LT(OpenShareAt(fitted, kHere), OpenShareAt(fitted, kFar)) << count;
    before = OpenShareAt(fitted, kHere);
  }
}

TEST(RunResidualsTest, RunsThatScatterWidenWhatIsSaidOfTheNext) {
  const Runs scattered = Together(Equal(5, 0.3), Equal(5, -0.3));
  EXPECT_GT(FitResiduals(scattered, kTimePrior).noise_variance,
            4 * FitResiduals(Equal(10, 0.02), kTimePrior).noise_variance);
}

// A run that took twenty times as long says next to nothing.
TEST(RunResidualsTest, OneWildRunDoesNotDecide) {
  const Runs calm = Together(Equal(2, 0.05), Equal(1, 0.04));
  const double alone = FactorAt(calm, kHere);
  EXPECT_NEAR(FactorAt(Together(calm, Equal(1, 3)), kHere), alone, 0.03);
  EXPECT_NEAR(FactorAt(Together(calm, Equal(1, -3)), kHere), alone, 0.03);
}

// Many runs that agree teach their factor, however large it is; a single run may be an outlier.
TEST(RunResidualsTest, RunsThatAgreeAreNotWild) {
  for (const double truth : {1.3, 1.6, 4.0}) {
    const auto factor = [truth](int count) {
      const FittedResiduals fitted = FitResiduals(Equal(count, std::log(truth)), kTimePrior);
      return std::exp(JobLogFactor(fitted) + PlanLogFactor(fitted, kHere));
    };
    EXPECT_LT(factor(1), 1.1);
    EXPECT_NEAR(factor(3), truth, 0.03 * truth);
    EXPECT_LT(factor(3), truth);
  }
}

TEST(RunResidualsTest, PlansNearARunTakeItsResidual) {
  PlanPoint there = kHere;
  there.tensor_parallel += 3;
  Runs runs = Equal(4, 0.1);
  for (RunResidual run : Equal(4, -0.1)) {
    run.point = there;
    runs.push_back(run);
  }
  EXPECT_GT(FactorAt(runs, kHere), 0.04);
  EXPECT_LT(FactorAt(runs, there), -0.04);
  EXPECT_NEAR(FactorAt(runs, kFar), 0, 0.02);
}

TEST(RunResidualsTest, APlansOwnFactorIsBounded) {
  Runs runs = Equal(20, 2);
  for (RunResidual run : Equal(20, -2)) {
    run.point = kFar;
    runs.push_back(run);
  }
  const FittedResiduals fitted =
      FitResiduals(runs, {.job = 0.01, .plan = 2, .noise = 0.01, .noise_rows = 100});
  EXPECT_LT(fitted.most_plan_log_factor, 1);
  EXPECT_EQ(PlanLogFactor(fitted, kHere), fitted.most_plan_log_factor);
  EXPECT_EQ(PlanLogFactor(fitted, kFar), -fitted.most_plan_log_factor);
}

TEST(RunResidualsTest, LessAlikeJobsTeachLess) {
  const double own = FactorAt(Equal(3, 0.1), kHere);
  const double other = FactorAt(Equal(3, 0.1, 1), kHere);
  const double other_version = FactorAt(Equal(3, 0.1, 1, 1), kHere);
  EXPECT_LT(other_version, other);
  EXPECT_LT(other, own);
  EXPECT_GT(other_version, 0);
}

// Memory has one factor for all plans of a job.
TEST(RunResidualsTest, MemoryDoesNotDependOnThePlan) {
  const FittedResiduals fitted = FitResiduals(Equal(3, 0.2), kMemoryPrior);
  EXPECT_GT(JobLogFactor(fitted), 0.1);
  EXPECT_EQ(PlanLogFactor(fitted, kHere), 0);
  EXPECT_EQ(FactorVariance(fitted, kHere), FactorVariance(fitted, kFar));
}

Runs Various() {
  std::mt19937 random(7);
  Runs runs;
  for (int i = 0; i < 40; ++i) {
    const int job = static_cast<int>(random() % 4);
    runs.push_back({.log_ratio = static_cast<double>(random() % 100) / 300,
                    .point = {.work = 18.0 + static_cast<double>(random() % 8),
                              .tensor_parallel = static_cast<double>(random() % 4)},
                    .job = job,
                    .version = job == 3 ? 1 : 0,
                    .nodes = job == 2 ? 1 : 0});
  }
  return runs;
}

TEST(RunResidualsTest, NeitherOrderNorNumbersOfJobsMatter) {
  Runs runs = Various();
  const FittedResiduals before = FitResiduals(runs, kTimePrior);
  std::mt19937 random(1);
  for (int i = 0; i < 5; ++i) {
    std::ranges::shuffle(runs, random);
    for (RunResidual& run : runs) {
      if (run.job != 0) run.job = run.job % 3 + 1;
    }
    const FittedResiduals after = FitResiduals(runs, kTimePrior);
    EXPECT_EQ(after.weights, before.weights);
    EXPECT_EQ(after.precision, before.precision);
  }
}

TEST(RunResidualsTest, LongHistoriesAreThinnedEvenly) {
  Runs runs;
  for (int i = 0; i < 5000; ++i) {
    runs.push_back({.log_ratio = 0.1 + 0.1 * (i % 2), .point = kHere, .job = 1 + i % 7});
  }
  const FittedResiduals fitted = FitResiduals(Together(runs, Equal(3, 0.15)), kTimePrior);
  EXPECT_LT(fitted.points.size(), 200U);
  EXPECT_NEAR(JobLogFactor(fitted) + PlanLogFactor(fitted, kHere), 0.15, 0.01);
}

TEST(DisagreementTest, OfOwnRunsWithOthers) {
  const Runs others = Equal(10, 0.02, 1);
  EXPECT_LT(Disagreement(Together(others, Equal(3, 0.03)), kTimePrior), 1);
  EXPECT_GT(Disagreement(Together(others, Equal(3, 0.5)), kTimePrior), 2);
  EXPECT_EQ(Disagreement(others, kTimePrior), 0);
  EXPECT_EQ(Disagreement(Equal(3, 0.5), kTimePrior), 0);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

#include "estimator/learning/uncertainty.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/learning/run_residuals.h"
#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr ParallelPlan kPlan = {.tensor_parallel = 8, .data_parallel = 4, .zero_stage = 1};

OwnedProblem Problem() {
  return FrameworkProblem(Llama2_7b(), "nvidia-a100-sxm4-80gb", 4, "megatron-core");
}

struct Priced {
  Estimate estimate = {};
  TimeUncertainty uncertainty = {};
};

Priced Price(const OwnedProblem& problem, const ParallelPlan& plan,
             const Calibration& calibration = {}) {
  AnalyticModel model(problem.View(), calibration);
  Priced priced = {.estimate = model.Full(plan)};
  priced.uncertainty = model.UncertaintyOf(plan, priced.estimate);
  return priced;
}

double LoadOf(const TimeUncertainty& uncertainty, ErrorSource source) {
  return uncertainty.loads[static_cast<std::size_t>(source)];
}

TEST(Uncertainty, OneNoiseOfEachRunIsLeftBetweenEqualPlans) {
  const OwnedProblem problem = Problem();
  const TimeUncertainty own = Price(problem, kPlan).uncertainty;
  EXPECT_DOUBLE_EQ(RatioSigma(own, own), std::sqrt(2) * kTimePrior.noise);
}

// Replicas that differ share nothing of a plan's own error (0.05) with other plans of their sizes,
// and add 0.16 that no run has confirmed. Two such plans share both.
TEST(Uncertainty, ReplicasThatDifferAreUnlikeOtherPlans) {
  const PlanPoint alike = {.work = 21};
  PlanPoint differ = alike;
  differ.replicas_differ = true;
  EXPECT_EQ(Likeness(alike, differ), 0);
  EXPECT_EQ(Likeness(differ, differ), 1);
  const OwnedProblem problem = Problem();
  const Estimate estimate = Price(problem, kPlan).estimate;
  const TimeUncertainty plain = UncertaintyOf(estimate, alike, {}, problem.View(), {});
  const TimeUncertainty replicas = UncertaintyOf(estimate, differ, {}, problem.View(), {});
  const double noise = std::sqrt(2) * kTimePrior.noise;
  EXPECT_DOUBLE_EQ(RatioSigma(replicas, replicas), noise);
  EXPECT_NEAR(RatioSigma(plain, replicas), std::sqrt(2 * 0.05 * 0.05 + 0.16 * 0.16 + noise * noise),
              1e-12);
}

// Half of one plan's step is an exchange that the other does not have; the rest is shared.
TEST(Uncertainty, WhatOnlyOnePlanHasDoesNotCancel) {
  TimeUncertainty without;
  without.loads[0] = 0.05;
  TimeUncertainty with = without;
  with.loads[3] = 0.12;
  EXPECT_DOUBLE_EQ(RatioSigma(without, with), 0.12);
  with.loads[0] = 0.02;
  EXPECT_DOUBLE_EQ(RatioSigma(without, with), std::hypot(0.12, 0.03));
}

TEST(Uncertainty, AnExchangeAcrossNodesIsAnotherSource) {
  const OwnedProblem problem =
      FrameworkProblem(Llama2_7b(), "nvidia-a100-sxm4-80gb", 2, "megatron-core");
  const TimeUncertainty inside =
      Price(problem, {.tensor_parallel = 8, .pipeline_parallel = 2}).uncertainty;
  EXPECT_GT(LoadOf(inside, ErrorSource::kExchangeInNode), 0);
  EXPECT_GT(LoadOf(inside, ErrorSource::kExchangeAcrossNodes), 0);  // the pipeline's messages
  EXPECT_GT(LoadOf(inside, ErrorSource::kBubble), 0);
  const TimeUncertainty across = Price(problem, {.tensor_parallel = 16}).uncertainty;
  EXPECT_EQ(LoadOf(across, ErrorSource::kExchangeInNode), 0);
  EXPECT_GT(LoadOf(across, ErrorSource::kExchangeAcrossNodes),
            LoadOf(inside, ErrorSource::kExchangeAcrossNodes));
  EXPECT_EQ(LoadOf(across, ErrorSource::kBubble), 0);
}

// Recomputation repeats kernels that the other plan runs too.
TEST(Uncertainty, RecomputationSharesTheErrorOfKernels) {
  const OwnedProblem problem = Problem();
  ParallelPlan again = kPlan;
  again.recompute.granularity = RecomputeGranularity::kFull;
  const Priced once = Price(problem, kPlan);
  const Priced twice = Price(problem, again);
  EXPECT_GT(twice.estimate.step_time, 1.2 * once.estimate.step_time);
  EXPECT_LT(RatioSigma(once.uncertainty, twice.uncertainty), 0.05);
}

TEST(Uncertainty, ProbabilitiesOfAPairAddUpToOne) {
  const OwnedProblem problem = Problem();
  const Priced a = Price(problem, kPlan);
  const Priced b = Price(problem, {.tensor_parallel = 2, .data_parallel = 16, .zero_stage = 1});
  const double p =
      FasterProbability(a.estimate.step_time, a.uncertainty, b.estimate.step_time, b.uncertainty);
  const double q =
      FasterProbability(b.estimate.step_time, b.uncertainty, a.estimate.step_time, a.uncertainty);
  EXPECT_DOUBLE_EQ(p + q, 1);
  EXPECT_EQ(p > 0.5, a.estimate.step_time < b.estimate.step_time);
  EXPECT_DOUBLE_EQ(
      FasterProbability(a.estimate.step_time, a.uncertainty, a.estimate.step_time, b.uncertainty),
      0.5);
}

// A tenth of a per cent is nothing that the model can see; a factor of two is.
TEST(Uncertainty, ProbabilityFollowsTheDifference) {
  const OwnedProblem problem = Problem();
  const Priced a = Price(problem, kPlan);
  const Seconds step = a.estimate.step_time;
  const TimeUncertainty& own = a.uncertainty;
  EXPECT_LT(FasterProbability(step, own, 1.001 * step, own), 0.53);
  EXPECT_GT(FasterProbability(step, own, 2 * step, own), 0.99);
}

TEST(Uncertainty, NothingIsSharedBetweenChips) {
  const OwnedProblem a100 = Problem();
  const OwnedProblem h100 =
      FrameworkProblem(Llama2_7b(), "nvidia-h100-sxm5-80gb", 4, "megatron-core");
  const TimeUncertainty a = Price(a100, kPlan).uncertainty;
  const TimeUncertainty b = Price(h100, kPlan).uncertainty;
  EXPECT_DOUBLE_EQ(RatioSigma(a, b), std::sqrt(a.variance + b.variance));
  EXPECT_GT(RatioSigma(a, b), 2 * RatioSigma(a, a));
}

// Runs of both plans pin their difference down; one that scatter widen it again.
TEST(Uncertainty, RunsOfBothPlansNarrowTheirDifference) {
  const OwnedProblem problem = Problem();
  const ParallelPlan other = {.tensor_parallel = 1, .data_parallel = 32, .zero_stage = 1};
  std::vector<RunResidual> runs;
  for (int i = 0; i < 10; ++i) {
    runs.push_back({.log_ratio = 0.05, .point = PointOf(kPlan, problem.View())});
    runs.push_back({.log_ratio = -0.05, .point = PointOf(other, problem.View())});
  }
  Calibration calibration;
  calibration.time = FitResiduals(runs, kTimePrior);
  const auto rest_of = [&](const Calibration& learnt) {
    TimeUncertainty a = Price(problem, kPlan, learnt).uncertainty;
    TimeUncertainty b = Price(problem, other, learnt).uncertainty;
    a.loads = b.loads = {};
    return RatioSigma(a, b);
  };
  EXPECT_LT(rest_of(calibration), 0.5 * rest_of({}));
}

// The coordinates give the variance that FactorVariance gives, and a covariance between plans.
TEST(Uncertainty, LearntCoordinatesAreTheExplainedCovariance) {
  const PlanPoint here = {.work = 21, .tensor_parallel = 1, .pipeline_parallel = 1};
  const PlanPoint near = {.work = 22, .tensor_parallel = 1, .pipeline_parallel = 2};
  const FittedResiduals fitted =
      FitResiduals(std::vector<RunResidual>{{.log_ratio = 0.1, .point = here},
                                            {.log_ratio = 0.08, .point = near},
                                            {.log_ratio = 0.12, .point = near}},
                   kTimePrior);
  const std::vector<double> own = LearntCoordinates(fitted, near);
  const double explained = std::inner_product(own.begin(), own.end(), own.begin(), 0.0);
  EXPECT_NEAR(fitted.job_variance + fitted.plan_variance - explained, FactorVariance(fitted, near),
              1e-12);
}

// Two plans of one question: the draws agree with the closed form. Equal plans win equally often.
TEST(FastestProbabilitiesTest, AgreeWithPairs) {
  TimeUncertainty a = {.plan_variance = 0.0025, .noise_variance = 0.0004};
  TimeUncertainty b = a;
  a.loads[0] = 0.3;
  b.loads[0] = 0.2;
  b.loads[1] = 0.1;
  b.point.work = 3;
  const Seconds fast(10);
  const Seconds slow(11);
  const std::vector<double> shares = FastestProbabilities({fast, slow}, {a, b});
  EXPECT_NEAR(shares[0], FasterProbability(fast, a, slow, b), 0.03);
  EXPECT_NEAR(shares[0] + shares[1], 1, 1e-9);
  EXPECT_NEAR(FastestProbabilities({fast, fast, fast}, {a, a, a})[0], 1.0 / 3, 0.05);
  EXPECT_EQ(FastestProbabilities({fast, slow}, {a, b}), shares);
  EXPECT_NEAR(FastestProbabilities({fast}, {a})[0], 1, 1e-9);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

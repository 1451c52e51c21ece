#include "estimator/interval.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/estimator/problems.h"

namespace meshwright {
namespace {

double Width(const Estimate& e) { return e.step_time_high / e.step_time_low; }

constexpr ParallelPlan kPlan = {.tensor_parallel = 8, .data_parallel = 2, .zero_stage = 1};

OwnedProblem A100Problem() {
  return FrameworkProblem(Llama2_7b(), "nvidia-a100-sxm4-80gb", 2, "megatron-core");
}

TEST(Interval, HoldsTheStepTime) {
  const Estimate estimate = FullOf(A100Problem(), kPlan);
  EXPECT_LT(estimate.step_time_low, estimate.step_time);
  EXPECT_LT(estimate.step_time, estimate.step_time_high);
  // Runs are slowed more often than sped up.
  EXPECT_GT(estimate.step_time_high / estimate.step_time,
            estimate.step_time / estimate.step_time_low);
}

// The same figures with less behind them: the answer says so and is wider.
TEST(Interval, WiderForAnUnmeasuredChip) {
  OwnedProblem problem = A100Problem();
  const Estimate known = FullOf(problem, kPlan);
  ChipSpec& chip = problem.cluster.pools.front().chip;
  chip.gemm_provenance = chip.attention_provenance = chip.collectives_provenance =
      chip.memory_bound_provenance = Provenance::kAssumed;
  const Estimate unknown = FullOf(problem, kPlan);
  EXPECT_EQ(unknown.step_time, known.step_time);
  EXPECT_GT(Width(unknown), 1.1 * Width(known));
  EXPECT_GT(unknown.provenance, known.provenance);
}

// So is every chip of the catalogue whose GEMM constants are assumed, against A100.
TEST(Interval, WiderForChipsOfTheCatalogueWithoutFits) {
  const double known = Width(FullOf(A100Problem(), kPlan));
  int seen = 0;
  for (const ChipEntry& entry : Chips().chips()) {
    const ChipSpec& chip = entry.spec;
    if (chip.gemm_provenance != Provenance::kAssumed || !chip.peak.contains(Precision::kBf16)) {
      continue;
    }
    const OwnedProblem problem = FrameworkProblem(Llama2_7b(), chip.id, 2, "megatron-core");
    EXPECT_GT(Width(FullOf(problem, kPlan)), known) << chip.id;
    ++seen;
  }
  EXPECT_GT(seen, 0);
}

// Residuals of measured runs replace what the constants leave open.
TEST(Interval, NarrowerAfterCalibration) {
  const OwnedProblem problem = A100Problem();
  const Calibration calibration = {.time_ratio = 1.1,
                                   .memory_ratio = 1.05,
                                   .time_log_sigma = 0.02,
                                   .memory_log_sigma = 0.01,
                                   .time_sample_count = 10,
                                   .memory_sample_count = 10};
  const Estimate cold = AnalyticModel(problem.View()).Full(kPlan);
  const Estimate warm = AnalyticModel(problem.View(), calibration).Full(kPlan);
  EXPECT_LT(Width(warm), Width(cold));
  EXPECT_NEAR(warm.step_time / cold.step_time, 1.1, 1e-12);
  EXPECT_NEAR(warm.peak_memory / cold.peak_memory, 1.05, 1e-9);
}

// History in which a plan of this size ran out of memory outweighs the model.
TEST(Fits, NotWhatHasFailed) {
  const OwnedProblem problem = A100Problem();
  const Estimate cold = FullOf(problem, kPlan);
  ASSERT_TRUE(cold.fits);
  const auto fits = [&](Bytes failed) {
    return AnalyticModel(problem.View(), {.out_of_memory_at = failed}).Full(kPlan).fits;
  };
  EXPECT_FALSE(fits(cold.reserved_memory));
  EXPECT_TRUE(fits(cold.reserved_memory + Bytes{1}));
}

// The median of a log-normal is exceeded in half of the cases; one sigma below in 15.87 %.
TEST(ProbabilityBelow, ByHand) {
  EXPECT_DOUBLE_EQ(ProbabilityBelow(10, 10, 0.05), 0.5);
  EXPECT_NEAR(ProbabilityBelow(10, 10 * std::exp(0.05), 0.05), 0.841345, 1e-6);
  EXPECT_NEAR(ProbabilityBelow(10, 10 * std::exp(-0.05), 0.05), 0.158655, 1e-6);
  EXPECT_EQ(ProbabilityBelow(0, 10, 0.05), 1);
  // kCentral80 leaves 10 % on each side.
  EXPECT_NEAR(ProbabilityBelow(10, 10 * std::exp(0.3 * kCentral80), 0.3), 0.9, 1e-12);
}

TEST(FitProbability, HalfAtCapacityAndMonotone) {
  OwnedProblem problem = A100Problem();
  const Bytes reserved = FullOf(problem, kPlan).reserved_memory;
  double last = 0;
  for (int percent = 60; percent <= 160; percent += 5) {
    problem.cluster.pools.front().memory_capacity = Scale(reserved, percent / 100.0);
    const Estimate estimate = FullOf(problem, kPlan);
    EXPECT_GE(estimate.fit_probability, last);
    EXPECT_EQ(estimate.fits, percent >= 100) << percent;
    if (percent == 100) {
      EXPECT_DOUBLE_EQ(estimate.fit_probability, 0.5);
    }
    last = estimate.fit_probability;
  }
  EXPECT_GT(last, 0.999);
}

}  // namespace
}  // namespace meshwright

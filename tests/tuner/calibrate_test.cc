#include "server/tuner/calibrate.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/tuner/infeasible.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace {

using testing::HasSubstr;

ParallelPlan DataParallel() { return {.data_parallel = 4}; }

Estimate Predicted(const Question& question, const ParallelPlan& plan) {
  const Problem problem = Resolved(question);
  AnalyticModel model(ViewOf(problem));
  return model.Full(plan);
}

// A run of the plan that took `time` and `memory` times what the model says.
HistoryRow Ran(double time, double memory, const ParallelPlan& plan = DataParallel()) {
  const Estimate predicted = Predicted(TinyQuestion(), plan);
  return {.question = TinyQuestion(),
          .plan = StatedPlan(plan),
          .outcome = Outcome::kOk,
          .step_time = predicted.step_time * time,
          .peak_memory = Scale(predicted.peak_memory, memory)};
}

HistoryRow RanOut(const ParallelPlan& plan) {
  return {.question = TinyQuestion(), .plan = StatedPlan(plan), .outcome = Outcome::kOom};
}

Calibration Calibrated(const std::vector<HistoryRow>& history) {
  return Calibrate(history, Resolved(TinyQuestion()), Known()).value();
}

TEST(CalibrateTest, WithoutHistoryNothingChanges) {
  const Calibration calibration = Calibrated({});
  EXPECT_EQ(calibration.time_ratio, 1);
  EXPECT_EQ(calibration.memory_ratio, 1);
  EXPECT_EQ(calibration.time_sample_count, 0);
  EXPECT_FALSE(calibration.out_of_memory_at.has_value());
}

// The prior "the model is right" weighs three rows of times and half a row of memory, so n equal
// rows of ratio r give r ^ (n / (n + 3)) and r ^ (n / (n + 1/2)).
TEST(CalibrateTest, FewRowsAreDrawnTowardsOne) {
  for (const int rows : {1, 2, 8}) {
    const std::vector<HistoryRow> history(static_cast<std::size_t>(rows), Ran(1.5, 0.8));
    const Calibration calibration = Calibrated(history);
    EXPECT_NEAR(calibration.time_ratio, std::pow(1.5, rows / (rows + 3.0)), 1e-9) << rows;
    EXPECT_NEAR(calibration.memory_ratio, std::pow(0.8, rows / (rows + 0.5)), 1e-6) << rows;
    EXPECT_EQ(calibration.time_sample_count, rows);
    EXPECT_EQ(calibration.memory_sample_count, rows);
    EXPECT_GT(calibration.time_log_sigma, 0);
  }
}

// Of 1.1, 1.2, 9 the middle one counts: 1.2 ^ (3 / 6).
TEST(CalibrateTest, OneOutlierDoesNotDecide) {
  const Calibration calibration = Calibrated({Ran(9, 1), Ran(1.1, 1), Ran(1.2, 1)});
  EXPECT_NEAR(calibration.time_ratio, std::pow(1.2, 3.0 / 6), 1e-9);
}

TEST(CalibrateTest, RowsOfOtherChipsOrFrameworksAreLeftOut) {
  HistoryRow other_chip = Ran(3, 1);
  other_chip.question.cluster.pools.front().chip = "nvidia-h100-sxm5-80gb";
  HistoryRow other_framework = Ran(3, 1);
  other_framework.question.workload.framework_name = "megatron-core";
  const Calibration calibration = Calibrated({other_chip, other_framework});
  EXPECT_EQ(calibration.time_ratio, 1);
  EXPECT_EQ(calibration.time_sample_count, 0);
}

TEST(CalibrateTest, FailuresThatTellNothingOfMemoryAreLeftOut) {
  HistoryRow crashed = RanOut(DataParallel());
  crashed.outcome = Outcome::kCrash;
  EXPECT_FALSE(Calibrated({crashed}).out_of_memory_at.has_value());
}

// A plan that ran out marks its own modelled size; a larger one that ran takes the mark away.
TEST(CalibrateTest, OutOfMemoryMarksTheSmallestFailure) {
  ParallelPlan small = DataParallel();
  small.zero_stage = 1;
  ParallelPlan large = DataParallel();
  large.micro_batch_size = 4;
  const Bytes small_size = Predicted(TinyQuestion(), small).reserved_memory;
  const Bytes large_size = Predicted(TinyQuestion(), large).reserved_memory;
  ASSERT_LT(small_size, large_size);
  EXPECT_EQ(Calibrated({RanOut(large)}).out_of_memory_at, large_size);
  EXPECT_EQ(Calibrated({RanOut(large), RanOut(small)}).out_of_memory_at, small_size);
  EXPECT_EQ(Calibrated({RanOut(small), Ran(1, 1, large)}).out_of_memory_at, std::nullopt);
}

TEST(CalibrateTest, OutOfMemoryPrunesPlansOfThatSizeAndLargerOnly) {
  ParallelPlan failed = DataParallel();
  failed.micro_batch_size = 2;
  const Problem problem = Resolved(TinyQuestion());
  const Bytes size = Predicted(TinyQuestion(), failed).reserved_memory;
  AnalyticModel plain(ViewOf(problem));
  AnalyticModel calibrated(ViewOf(problem), Calibrated({RanOut(failed)}));
  const SearchSpace space = SpaceOf(problem);
  std::int64_t pruned = 0;
  std::int64_t kept = 0;
  for (PlanWalk walk(space); walk.Next();) {
    if (!walk.is_plan() || walk.plan().pipeline_parallel > 1) continue;
    const QuickEstimate before = plain.Quick(walk.plan());
    const QuickEstimate after = calibrated.Quick(walk.plan());
    ASSERT_EQ(after.fits, before.fits && before.reserved_memory < size)
        << MakePlanKey(walk.plan()).text;
    ++(after.fits ? kept : pruned);
  }
  EXPECT_GT(pruned, 0);
  EXPECT_GT(kept, 0);
}

TEST(CalibrateTest, ABadRowIsNamed) {
  HistoryRow row = Ran(1, 1);
  row.question.model.layer_count = 0;
  const auto bad_model = Calibrate({Ran(1, 1), row}, Resolved(TinyQuestion()), Known());
  EXPECT_TRUE(absl::IsInvalidArgument(bad_model.status()));
  EXPECT_THAT(std::string(bad_model.status().message()),
              testing::AllOf(HasSubstr("history[1]"), HasSubstr("model.layer_count")));
  row = Ran(1, 1);
  row.plan.tensor_parallel = 3;
  const auto bad_plan = Calibrate({row}, Resolved(TinyQuestion()), Known());
  EXPECT_THAT(std::string(bad_plan.status().message()),
              testing::AllOf(HasSubstr("history[0]"), HasSubstr("plan.tensor_parallel")));
}

}  // namespace
}  // namespace meshwright

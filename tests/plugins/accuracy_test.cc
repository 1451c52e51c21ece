#include "server/plugins/accuracy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/plugins/model_registry.h"
#include "server/plugins/running_model.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"
#include "tests/plugins/models.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(RankCorrelationTest, IsThatOfTheRanks) {
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {10, 200, 3000}), 1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(RankCorrelation({1, 2, 3}, {5, 5, 5}), 0);
  // Ranks 0 1 2 3 and 0.5 0.5 3 2: sums of products 3.5, of squares 5 and 4.5.
  EXPECT_NEAR(RankCorrelation({1, 2, 3, 4}, {7, 7, 9, 8}), 3.5 / std::sqrt(5 * 4.5), 1e-12);
}

// Takes as many seconds as the plan's tensor parallelism, and knows no micro-batch of 4.
class TensorModel final : public PlanModel {
 public:
  TensorModel() : PlanModel({.name = "tensor"}) {}
  absl::StatusOr<std::vector<PlanFigures>> Estimate(std::span<const ParallelPlan> plans,
                                                    const BatchOptions& /*options*/) override {
    std::vector<PlanFigures> figures;
    for (const ParallelPlan& plan : plans) {
      if (plan.micro_batch_size == 4) {
        figures.push_back({.verdict = PlanVerdict::kUnsupported, .reason = "no such batch"});
      } else {
        figures.push_back(
            {.verdict = PlanVerdict::kOk, .step_time = Seconds(plan.tensor_parallel)});
      }
    }
    return figures;
  }
};

HistoryRow Measured(int tensor, double seconds, int micro_batch = 1) {
  return ResolvedRow({.question = TinyQuestion(),
                      .plan = {.tensor_parallel = tensor, .micro_batch_size = micro_batch},
                      .step_time = Seconds(seconds)});
}

absl::StatusOr<Accuracy> Compare(const std::vector<HistoryRow>& runs) {
  return CompareWithRuns(runs, [](const Problem&) -> absl::StatusOr<std::unique_ptr<PlanModel>> {
    return std::make_unique<TensorModel>();
  });
}

TEST(AccuracyTest, ErrorsAndOrder) {
  // Estimates 1, 2, 4 s. Errors: |1/2 - 1| = 0.5 of the mean of 1.5 and 2.5 s, |2/1 - 1| = 1,
  // |4/5 - 1| = 0.2. The measured best, of tensor parallelism 2, is the model's second choice.
  const auto accuracy =
      Compare({Measured(1, 1.5), Measured(1, 2.5), Measured(2, 1), Measured(4, 5)});
  ASSERT_TRUE(accuracy.ok()) << accuracy.status();
  EXPECT_EQ(accuracy->plan_count, 3);
  EXPECT_DOUBLE_EQ(accuracy->median_error_ratio, 0.5);
  EXPECT_DOUBLE_EQ(accuracy->mean_error_ratio, 1.7 / 3);
  EXPECT_DOUBLE_EQ(accuracy->p90_error_ratio, 1);
  EXPECT_EQ(accuracy->question_count, 1);
  EXPECT_DOUBLE_EQ(accuracy->rank_correlation, 0.5);  // ranks 0 1 2 and 1 0 2: 1 - 6 x 2 / 24
  EXPECT_EQ(accuracy->first_count, 0);
  EXPECT_EQ(accuracy->first_three_count, 1);
  EXPECT_THAT(accuracy->skipped, IsEmpty());
}

TEST(AccuracyTest, EqualTimesAreNoChoice) {
  // All have the same tensor parallelism, so the model cannot tell them apart.
  const auto accuracy =
      Compare({Measured(4, 1), Measured(4, 2, 2), Measured(4, 3, 8), Measured(4, 4, 16)});
  ASSERT_TRUE(accuracy.ok()) << accuracy.status();
  EXPECT_EQ(accuracy->question_count, 1);
  EXPECT_EQ(accuracy->rank_correlation, 0);
  EXPECT_EQ(accuracy->first_count, 0);
  EXPECT_EQ(accuracy->first_three_count, 0);
}

TEST(AccuracyTest, SaysWhatItDidNotCompare) {
  HistoryRow failed = Measured(2, 1);
  failed.outcome = Outcome::kOom;
  failed.step_time.reset();
  const auto accuracy = Compare({Measured(1, 1, 4), failed, Measured(2, 2)});
  ASSERT_TRUE(accuracy.ok()) << accuracy.status();
  EXPECT_EQ(accuracy->plan_count, 1);
  EXPECT_EQ(accuracy->question_count, 0);
  std::vector<int> rows;
  for (const SkippedRun& run : accuracy->skipped) rows.push_back(run.row);
  EXPECT_THAT(rows, ElementsAre(0, 1));
  EXPECT_THAT(accuracy->skipped[0].why, HasSubstr("no such batch"));
  EXPECT_THAT(accuracy->skipped[1].why, HasSubstr("no step time"));
}

// A real model whose own estimates are the measurements has no error.
TEST(AccuracyTest, OfATemplate) {
  const auto model = std::make_shared<RunningModel>(CppTemplate(), QuickPolicy(), ModelEvent());
  std::vector<HistoryRow> runs = {Measured(1, 1), Measured(2, 1), Measured(4, 1)};
  const auto open = [&](const Problem& problem) { return MakePlanModel(model, problem); };
  const Problem problem = Resolved(TinyQuestion());
  const auto opened = open(problem);
  ASSERT_TRUE(opened.ok()) << opened.status();
  for (HistoryRow& run : runs) {
    const ParallelPlan plan = ResolvePlan(run.plan, problem, "plan")->plan;
    run.step_time = (*opened)->Estimate(std::span(&plan, 1), {})->front().step_time;
  }
  const auto accuracy = CompareWithRuns(runs, open);
  ASSERT_TRUE(accuracy.ok()) << accuracy.status();
  EXPECT_EQ(accuracy->plan_count, 3);
  EXPECT_EQ(accuracy->p90_error_ratio, 0);
  EXPECT_EQ(accuracy->rank_correlation, 1);
  EXPECT_EQ(accuracy->first_count, 1);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

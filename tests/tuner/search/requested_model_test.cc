#include "server/tuner/search/requested_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "estimator/model/analytic_model.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/fake_model.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::HasSubstr;

StudyResult Result(const absl::StatusOr<StudyAnswer>& answer) {
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? std::get<StudyResult>(*answer) : StudyResult();
}

TEST(AskedModelTest, AModelThatAgreesGivesTheBuiltInWinner) {
  const StudyResult own = Result(RunStudy({.question = TinyQuestion()}, Known(), StudyControl()));
  const StudyResult asked = Result(RunStudy(Asking("fake"), Known(), With(AsBuiltIn)));
  ASSERT_FALSE(asked.plans.empty());
  EXPECT_EQ(asked.plans.front().plan, own.plans.front().plan);
  EXPECT_EQ(asked.plans.front().estimate.step_time, own.plans.front().estimate.step_time);
  EXPECT_TRUE(asked.search.complete);
  EXPECT_FALSE(own.plans.front().estimate.cost_model.has_value());
  for (const RankedPlan& plan : asked.plans) {
    ASSERT_TRUE(plan.estimate.cost_model.has_value());
    EXPECT_EQ(plan.estimate.cost_model->name, "fake");
    EXPECT_EQ(plan.estimate.cost_model->version, "2");
    EXPECT_EQ(plan.estimate.cost_model->checksum, "abc");
    EXPECT_EQ(plan.estimate.cost_model->calibration, "7+def");
    EXPECT_FALSE(plan.estimate.cost_model->is_fallback);
  }
  ASSERT_TRUE(asked.baseline.has_value());
  EXPECT_TRUE(asked.baseline->estimate.cost_model.has_value());
  EXPECT_THAT(asked.warnings, Contains("calibrated long ago"));
}

TEST(AskedModelTest, RanksByTheModelsTimes) {
  // Prefers tensor parallelism only; it is never faster than the built-in model.
  const auto judge = [](const ParallelPlan& plan, Seconds /*built_in*/) {
    return PlanFigures{.verdict = PlanVerdict::kOk,
                       .step_time = Seconds(plan.tensor_parallel == 2 ? 50 : 100),
                       .breakdown = {{"matmul", Seconds(30)}, {"their own", Seconds(20)}}};
  };
  const StudyResult asked = Result(RunStudy(Asking("fake"), Known(), With(judge)));
  ASSERT_FALSE(asked.plans.empty());
  const RankedPlan& winner = asked.plans.front();
  EXPECT_EQ(winner.plan.tensor_parallel, 2);
  EXPECT_EQ(winner.estimate.step_time, Seconds(50));
  const TimeBreakdown& lines = winner.estimate.breakdown;
  EXPECT_DOUBLE_EQ(lines[static_cast<std::size_t>(TimeCause::kMatmul)].count(), 30);
  EXPECT_DOUBLE_EQ(lines[static_cast<std::size_t>(TimeCause::kFixed)].count(), 20);
  // 16 x 1,024 tokens in 50 s on 4 devices.
  EXPECT_NEAR(winner.estimate.tokens_per_second_per_device, 16384 / 50.0 / 4, 1e-6);
}

// A run that ran out of memory rules out plans of its size here too, and the answer names the rule.
TEST(AskedModelTest, WhatRanOutOfMemoryCountsForTheRuleHistory) {
  StudyRequest request = Asking("fake");
  const PlanRequest plan = {.tensor_parallel = 1, .micro_batch_size = 4};
  request.history = {{.question = request.question, .plan = plan, .outcome = Outcome::kOom}};
  const auto answer = RunStudy(request, Known(), With(AsBuiltIn));
  const auto& result = std::get<StudyResult>(*answer);
  const auto built_in =
      RunStudy({.question = request.question, .history = request.history}, Known(), {});
  const auto count = [](const StudyResult& of) {
    return std::ranges::find(of.search.pruned_count_by_rule, "history",
                             [](const auto& rule) { return rule.first; })
        ->second;
  };
  EXPECT_GT(count(result), 0);
  EXPECT_EQ(count(result) > 0, count(std::get<StudyResult>(*built_in)) > 0);
  EXPECT_THAT(result.warnings, testing::Contains(testing::HasSubstr("ran out of memory at ")));
}

TEST(AskedModelTest, PlansWithoutAnEstimateAreCountedAndLeftOut) {
  const auto judge = [](const ParallelPlan& plan, Seconds built_in) {
    if (plan.tensor_parallel == 1) {
      return PlanFigures{.verdict = PlanVerdict::kUnsupported, .reason = "no tensor parallelism"};
    }
    return AsBuiltIn(plan, built_in);
  };
  const StudyResult asked = Result(RunStudy(Asking("fake"), Known(), With(judge)));
  for (const RankedPlan& plan : asked.plans) EXPECT_GT(plan.plan.tensor_parallel, 1);
  EXPECT_THAT(asked.warnings, Contains(HasSubstr("not supported by it; the first: no tensor")));
}

TEST(AskedModelTest, NoEstimateAtAllIsAFailureWithItsReason) {
  const auto judge = [](const ParallelPlan& /*plan*/, Seconds /*built_in*/) {
    return PlanFigures{.verdict = PlanVerdict::kError, .reason = "nan s"};
  };
  const auto answer = RunStudy(Asking("fake"), Known(), With(judge));
  EXPECT_EQ(Reason(answer.status()), "COST_MODEL_NO_ESTIMATE");
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("nan s"));
}

TEST(AskedModelTest, NoEstimateUpToTheLimitIsAFailureThatFallsBackWhereAllowed) {
  const auto judge = [](const ParallelPlan& /*plan*/, Seconds /*built_in*/) {
    return PlanFigures{.verdict = PlanVerdict::kError, .reason = "nan s"};
  };
  StudyRequest request = Asking("fake");
  request.evaluation_limit = 5;
  const auto answer = RunStudy(request, Known(), With(judge));
  EXPECT_EQ(Reason(answer.status()), "COST_MODEL_NO_ESTIMATE");
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("5 of 5 plans"));
  request.cost_model->allow_fallback = true;
  for (const std::optional<int> limit : {std::optional(5), std::optional<int>()}) {
    request.evaluation_limit = limit;
    const StudyResult fallen = Result(RunStudy(request, Known(), With(judge)));
    ASSERT_TRUE(fallen.plans.front().estimate.cost_model.has_value());
    EXPECT_TRUE(fallen.plans.front().estimate.cost_model->is_fallback);
    EXPECT_THAT(fallen.plans.front().estimate.cost_model->reason, HasSubstr("nan s"));
  }
}

// An unsupported plan does not change the verdict that nothing fits; one that the model fails on
// does.
TEST(AskedModelTest, WhatFitsNotBesideWhatIsNotSupportedIsAnAnswer) {
  for (const PlanVerdict other : {PlanVerdict::kUnsupported, PlanVerdict::kError}) {
    const auto judge = [other](const ParallelPlan& plan, Seconds /*built_in*/) {
      return PlanFigures{
          .verdict = plan.pipeline_parallel > 1 ? other : PlanVerdict::kInfeasibleMemory,
          .reason = "no"};
    };
    EXPECT_EQ(Reason(RunStudy(Asking("fake"), Known(), With(judge)).status()),
              other == PlanVerdict::kError ? "COST_MODEL_NO_ESTIMATE" : "NO_FEASIBLE_PLAN");
  }
}

// If nothing fits in one precision, the others answer, and the answer reports it.
TEST(AskedModelTest, APrecisionInWhichNothingFitsIsAWarning) {
  StudyRequest request = Asking("fake");
  request.question.workload.precision.reset();
  request.dimensions = {{.name = "precision", .values = {"bf16", "fp32"}}};
  StudyControl control = With(AsBuiltIn);
  control.open_model = [all = control.open_model,
                        none = With([](const ParallelPlan&, Seconds) {
                                 return PlanFigures{.verdict = PlanVerdict::kInfeasibleMemory,
                                                    .reason = "too large"};
                               }).open_model](std::string_view name, const Problem& problem,
                                              const std::stop_token& cancel) {
    return (problem.workload.precision == Precision::kFp32 ? none : all)(name, problem, cancel);
  };
  const StudyResult found = Result(RunStudy(request, Known(), control));
  EXPECT_EQ(found.plans.front().settings.front().value, "bf16");
  EXPECT_THAT(found.warnings, Contains(HasSubstr("no plan fits by the cost model")));
}

// If nothing fits by the model's own estimate, that is its answer and no failure.
TEST(AskedModelTest, NothingThatFitsByTheModelIsNoReasonToFallBack) {
  const auto judge = [](const ParallelPlan& /*plan*/, Seconds /*built_in*/) {
    return PlanFigures{.verdict = PlanVerdict::kInfeasibleMemory, .reason = "too large"};
  };
  StudyRequest request = Asking("fake");
  request.cost_model->allow_fallback = true;
  const absl::Status none = RunStudy(request, Known(), With(judge)).status();
  EXPECT_EQ(Reason(none), "NO_FEASIBLE_PLAN");
  EXPECT_THAT(std::string(none.message()), HasSubstr("no plan fits by the cost model"));
  request.evaluation_limit = 5;
  EXPECT_EQ(Reason(RunStudy(request, Known(), With(judge)).status()), "EVALUATION_LIMIT");
}

TEST(AskedModelTest, NothingThatFitsInAnyPrecisionNamesEach) {
  StudyRequest request = Asking("fake");
  request.question.workload.precision.reset();
  request.dimensions = {{.name = "precision", .values = {"bf16", "fp32"}}};
  const auto judge = [](const ParallelPlan& /*plan*/, Seconds /*built_in*/) {
    return PlanFigures{.verdict = PlanVerdict::kInfeasibleMemory, .reason = "too large"};
  };
  const absl::Status none = RunStudy(request, Known(), With(judge)).status();
  EXPECT_EQ(Reason(none), "NO_FEASIBLE_PLAN");
  EXPECT_THAT(std::string(none.message()), HasSubstr("with bf16: no plan fits"));
  EXPECT_THAT(std::string(none.message()), HasSubstr("with fp32: no plan fits"));
}

TEST(AskedModelTest, FailsWithoutFallback) {
  EXPECT_TRUE(absl::IsUnavailable(RunStudy(Asking("broken"), Known(), With(AsBuiltIn)).status()));
  EXPECT_TRUE(absl::IsUnavailable(RunStudy(Asking("fake"), Known(), With(AsBuiltIn, 1)).status()));
  EXPECT_EQ(Reason(RunStudy(Asking("fake"), Known(), StudyControl()).status()), "NO_COST_MODELS");
}

TEST(AskedModelTest, FallbackMarksEveryPlan) {
  for (const auto& [name, failing_call] : {std::pair("broken", 0), std::pair("fake", 1)}) {
    const StudyResult own = Result(RunStudy({.question = TinyQuestion()}, Known(), StudyControl()));
    const StudyResult asked =
        Result(RunStudy(Asking(name, true), Known(), With(AsBuiltIn, failing_call)));
    ASSERT_EQ(asked.plans.size(), own.plans.size());
    for (std::size_t i = 0; i < asked.plans.size(); ++i) {
      EXPECT_EQ(asked.plans[i].plan, own.plans[i].plan);
      ASSERT_TRUE(asked.plans[i].estimate.cost_model.has_value());
      EXPECT_TRUE(asked.plans[i].estimate.cost_model->is_fallback);
      EXPECT_FALSE(asked.plans[i].estimate.cost_model->reason.empty());
    }
  }
}

// The model is given up once it has answered for the favourites; those answers are kept.
TEST(AskedModelTest, WhatWasAnsweredBeforeAFailureStands) {
  const StudyResult asked = Result(RunStudy(Asking("fake"), Known(), With(AsBuiltIn, 2)));
  ASSERT_FALSE(asked.plans.empty());
  EXPECT_FALSE(asked.search.complete);
  EXPECT_FALSE(asked.plans.front().estimate.cost_model->is_fallback);
  EXPECT_THAT(asked.warnings, Contains(HasSubstr("stopped answering")));
}

TEST(AskedModelTest, ALimitIsKept) {
  StudyRequest request = Asking("fake");
  request.evaluation_limit = 10;
  const StudyResult asked = Result(RunStudy(request, Known(), With(AsBuiltIn)));
  EXPECT_EQ(asked.search.evaluated_count, 10);
  EXPECT_FALSE(asked.search.complete);
}

TEST(AskedModelTest, OtherStrategiesRefuseIt) {
  StudyRequest request = Asking("fake");
  request.strategy = "random";
  EXPECT_TRUE(absl::IsInvalidArgument(RunStudy(request, Known(), With(AsBuiltIn)).status()));
}

TEST(AskedModelTest, CasesKeepTheirModelAndSayWhatItCannot) {
  const auto judge = [](const ParallelPlan& plan, Seconds built_in) {
    if (plan.micro_batch_size == 2) {
      return PlanFigures{.verdict = PlanVerdict::kInfeasibleMemory, .reason = "too much"};
    }
    return PlanFigures{.verdict = PlanVerdict::kOk, .step_time = 2 * built_in};
  };
  CaseModel model(CostModelRequest{.name = "fake"}, With(judge).open_model);
  QuestionResolver resolver(Known());
  EvaluateRequest request = {.question = TinyQuestion(), .plan = {.tensor_parallel = 2}};
  Estimate estimate = EvaluatePlan(request, Known(), {}).value();
  const Seconds built_in = estimate.step_time;
  ASSERT_TRUE(model.Apply(ResolveCase(request, resolver).value(), estimate).ok());
  EXPECT_EQ(estimate.step_time, 2 * built_in);
  EXPECT_EQ(estimate.cost_model->name, "fake");
  EXPECT_THAT(estimate.warnings, Contains("calibrated long ago"));
  request.plan.micro_batch_size = 2;
  EXPECT_EQ(Reason(model.Apply(ResolveCase(request, resolver).value(), estimate)),
            "COST_MODEL_NO_ESTIMATE");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

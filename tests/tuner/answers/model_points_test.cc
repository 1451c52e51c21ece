// Tests of fronts and sweeps by a vendor's model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/pareto_front.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/answers/sweep.h"
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
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

// Returns a question with four devices whose fastest plan leaves little of the memory free.
Question TightQuestion() {
  Question question = TinyQuestion();
  question.cluster.pools.front().memory_capacity = GiB(3);
  return question;
}

StudyRequest Tight(const std::string& model, bool allow_fallback = false) {
  StudyRequest request = Asking(model, allow_fallback);
  request.question = TightQuestion();
  return request;
}

StudyResult Front(StudyRequest request, const StudyControl& control) {
  request.pareto = true;
  return std::get<StudyResult>(RunStudy(request, Known(), control).value());
}

const std::vector<double> kLevels(std::begin(kFreeMemoryLevels), std::end(kFreeMemoryLevels));

TEST(ModelFrontTest, AModelThatAgreesGivesTheBuiltInFront) {
  const StudyResult own = Front({.question = TightQuestion()}, {});
  const StudyResult asked = Front(Tight("fake"), With(AsBuiltIn));
  ASSERT_GE(own.pareto_front.size(), 2U);
  ASSERT_EQ(asked.pareto_front.size(), own.pareto_front.size());
  for (std::size_t i = 0; i < own.pareto_front.size(); ++i) {
    const RankedPlan& plan = asked.pareto_front[i].plan;
    EXPECT_EQ(plan.plan, own.pareto_front[i].plan.plan);
    EXPECT_EQ(plan.estimate.step_time, own.pareto_front[i].plan.estimate.step_time);
    EXPECT_EQ(asked.pareto_front[i].free_memory_ratio, own.pareto_front[i].free_memory_ratio);
    ASSERT_TRUE(plan.estimate.cost_model.has_value());
    EXPECT_EQ(plan.estimate.cost_model->name, "fake");
    EXPECT_FALSE(plan.estimate.cost_model->is_fallback);
  }
}

// The model's own memory verdict applies to the memory that the point leaves.
TEST(ModelSweepTest, EachPointOpensTheModelForItsMemory) {
  StudyControl control = With(AsBuiltIn);
  std::vector<Bytes> opened;
  control.open_model = [&, open = control.open_model](std::string_view name, const Problem& problem,
                                                      const std::stop_token& cancel) {
    opened.push_back(problem.cluster.pools.front().memory_capacity);
    return open(name, problem, cancel);
  };
  ASSERT_TRUE(
      RunSweep(Tight("fake"), OwnRange(Tight("fake"), {1}, {0, 0.25}), Known(), control).ok());
  EXPECT_THAT(opened, ElementsAre(GiB(3), GiB(2.25)));
}

// If the model does not start again, no point is answered by another model.
TEST(ModelFrontTest, LevelsThatTheModelCannotAnswerAreLeftOut) {
  StudyControl control = With(AsBuiltIn);
  int opened = 0;
  control.open_model = [&, open = control.open_model](std::string_view name, const Problem& problem,
                                                      const std::stop_token& cancel) {
    return open(++opened == 1 ? name : "broken", problem, cancel);
  };
  for (const bool allow_fallback : {false, true}) {
    opened = 0;
    const StudyResult result = Front(Tight("fake", allow_fallback), control);
    ASSERT_EQ(result.pareto_front.size(), 1U);
    EXPECT_EQ(result.pareto_front.front().plan.plan, result.plans.front().plan);
    EXPECT_THAT(result.warnings, Contains(HasSubstr("has no point that leaves")));
    EXPECT_THAT(result.warnings, Contains(HasSubstr("does not start")));
  }
}

// Each level is a search of its own, in which the model leaves out other plans.
TEST(ModelFrontTest, WarnsOfWhatTheLevelsLeftOut) {
  const auto judge = [](const ParallelPlan& plan, Seconds built_in) {
    if (plan.micro_batch_size == 2) {
      return PlanFigures{.verdict = PlanVerdict::kUnsupported, .reason = "no two at once"};
    }
    return AsBuiltIn(plan, built_in);
  };
  const StudyResult result = Front(Tight("fake"), With(judge));
  ASSERT_GE(result.pareto_front.size(), 2U);
  EXPECT_THAT(result.warnings, Contains(StartsWith("cost model fake: ")));
  EXPECT_THAT(result.warnings, Contains(StartsWith("pareto_front, 10 % of the memory free: ")));
  EXPECT_EQ(std::ranges::count(result.warnings, "calibrated long ago"), 1);
}

TEST(ModelFrontTest, FallbackMarksEveryPoint) {
  const StudyResult own = Front({.question = TightQuestion()}, {});
  const StudyResult asked = Front(Tight("broken", true), With(AsBuiltIn));
  ASSERT_EQ(asked.pareto_front.size(), own.pareto_front.size());
  for (const ParetoPoint& point : asked.pareto_front) {
    ASSERT_TRUE(point.plan.estimate.cost_model.has_value());
    EXPECT_TRUE(point.plan.estimate.cost_model->is_fallback);
  }
}

TEST(ModelSweepTest, AModelThatAgreesGivesTheBuiltInPoints) {
  // A vendor's model takes every plan that fits.
  const StudyRequest question = {.question = TightQuestion(), .choice = kModelOrder};
  const Sweep own = RunSweep(question, OwnRange(question, {1, 2}, kLevels), Known(), {}).value();
  const Sweep asked =
      RunSweep(Tight("fake"), OwnRange(Tight("fake"), {1, 2}, kLevels), Known(), With(AsBuiltIn))
          .value();
  ASSERT_EQ(asked.points.size(), own.points.size());
  ASSERT_TRUE(own.points.front().best.has_value());
  for (std::size_t i = 0; i < own.points.size(); ++i) {
    ASSERT_EQ(asked.points[i].best.has_value(), own.points[i].best.has_value());
    if (!own.points[i].best.has_value()) continue;  // nothing fits by the built-in memory model
    EXPECT_EQ(asked.points[i].best->plan, own.points[i].best->plan);
    EXPECT_EQ(asked.points[i].is_on_front, own.points[i].is_on_front);
    EXPECT_EQ(asked.points[i].best->estimate.cost_model->name, "fake");
  }
  EXPECT_THAT(asked.warnings, Contains("calibrated long ago"));
}

TEST(ModelSweepTest, PointsAreRankedByTheModelsTimes) {
  const auto judge = [](const ParallelPlan& plan, Seconds /*built_in*/) {
    return PlanFigures{.verdict = PlanVerdict::kOk,
                       .step_time = Seconds(plan.tensor_parallel == 2 ? 50 : 100)};
  };
  const Sweep sweep =
      RunSweep(Asking("fake"), OwnRange(Asking("fake"), {1}, {0}), Known(), With(judge)).value();
  ASSERT_TRUE(sweep.points.front().best.has_value());
  EXPECT_EQ(sweep.points.front().best->plan.tensor_parallel, 2);
  // 4 devices, 16 x 1,024 tokens a step.
  EXPECT_DOUBLE_EQ(sweep.points.front().device_seconds_per_token, 4 * 50.0 / 16384);
}

// Points of two models cannot be compared: if one fails, all are the built-in model's.
TEST(ModelSweepTest, FallsBackAsAWhole) {
  StudyControl control = With(AsBuiltIn);
  int opened = 0;
  control.open_model = [&, open = control.open_model](std::string_view name, const Problem& problem,
                                                      const std::stop_token& cancel) {
    return open(++opened == 1 ? name : "broken", problem, cancel);
  };
  const Sweep own =
      RunSweep({.question = TightQuestion()},
               OwnRange(StudyRequest{.question = TightQuestion()}, {1, 2}, {0}), Known(), {})
          .value();
  const Sweep asked =
      RunSweep(Tight("fake", true), OwnRange(Tight("fake", true), {1, 2}, {0}), Known(), control)
          .value();
  ASSERT_EQ(asked.points.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i) {
    const Estimate& estimate = asked.points[i].best->estimate;
    EXPECT_EQ(estimate.step_time, own.points[i].best->estimate.step_time);
    ASSERT_TRUE(estimate.cost_model.has_value());
    EXPECT_TRUE(estimate.cost_model->is_fallback);
    EXPECT_EQ(estimate.cost_model->reason, "does not start");
  }
  EXPECT_THAT(asked.warnings, Contains(HasSubstr("all points are the built-in model's")));
  opened = 0;
  const absl::Status refused =
      RunSweep(Tight("fake"), OwnRange(Tight("fake"), {1, 2}, {0}), Known(), control).status();
  EXPECT_TRUE(absl::IsUnavailable(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("8 devices at 0 % of the memory free: "));
}

TEST(ModelSweepTest, AModelThatFailsOnTheWayEndsIt) {
  const absl::Status status =
      RunSweep(Asking("fake"), OwnRange(Asking("fake"), {1}, {0}), Known(), With(AsBuiltIn, 2))
          .status();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  const Sweep built_in = RunSweep(Asking("fake", true), OwnRange(Asking("fake", true), {1}, {0}),
                                  Known(), With(AsBuiltIn, 2))
                             .value();
  EXPECT_TRUE(built_in.points.front().best->estimate.cost_model->is_fallback);
}

// The plan that the built-in model ranks lowest is best here, so a search of few plans finds faster
// ones if less memory leaves only worse favourites.
TEST(ModelFrontTest, AFasterPlanOfALevelBeginsTheFrontAndIsTold) {
  const auto judge = [](const ParallelPlan& /*plan*/, Seconds built_in) {
    return PlanFigures{.verdict = PlanVerdict::kOk, .step_time = Seconds(100) - built_in};
  };
  StudyRequest limited = Tight("fake");
  limited.evaluation_limit = 20;
  const StudyResult result = Front(limited, With(judge));
  EXPECT_FALSE(result.search.complete);
  const std::vector<ParetoPoint>& front = result.pareto_front;
  ASSERT_FALSE(front.empty());
  EXPECT_LT(front.front().plan.estimate.step_time, result.plans.front().estimate.step_time);
  for (std::size_t i = 1; i < front.size(); ++i) {
    EXPECT_GT(front[i].plan.estimate.step_time, front[i - 1].plan.estimate.step_time);
    EXPECT_GT(front[i].free_memory_ratio, front[i - 1].free_memory_ratio);
  }
  EXPECT_THAT(result.warnings,
              Contains(HasSubstr("free: cost model fake: the best of the 20 plans")));
  EXPECT_THAT(result.warnings, Contains(StartsWith("pareto_front begins with a plan of ")));
}

// A sweep does the same: the plan also leaves enough memory for the point with more of it.
TEST(ModelSweepTest, APointTakesOverTheFasterPlanOfOneThatLeavesMore) {
  const auto judge = [](const ParallelPlan& /*plan*/, Seconds built_in) {
    return PlanFigures{.verdict = PlanVerdict::kOk, .step_time = Seconds(100) - built_in};
  };
  StudyRequest limited = Tight("fake");
  limited.evaluation_limit = 20;
  const Sweep sweep =
      RunSweep(limited, OwnRange(limited, {1}, {0, 0.1, 0.2, 0.3}), Known(), With(judge)).value();
  ASSERT_EQ(sweep.points.size(), 4U);
  for (std::size_t i = 1; i < sweep.points.size(); ++i) {
    ASSERT_TRUE(sweep.points[i].best.has_value());
    EXPECT_LE(sweep.points[i - 1].best->estimate.step_time,
              sweep.points[i].best->estimate.step_time);
  }
  EXPECT_THAT(sweep.warnings,
              Contains(StartsWith("4 devices at 0 % of the memory free: the plan of ")));
}

// Precisions of two models cannot be ranked: if one fails, all are the built-in model's.
TEST(ModelPrecisionTest, FallsBackAsAWhole) {
  StudyRequest request = Asking("fake", true);
  request.dimensions = {{.name = "precision", .values = {"bf16", "fp32"}}};
  StudyControl control = With(AsBuiltIn);
  control.open_model = [open = control.open_model](std::string_view name, const Problem& problem,
                                                   const std::stop_token& cancel) {
    return open(problem.workload.precision == Precision::kBf16 ? name : "broken", problem, cancel);
  };
  const auto plans = std::get<StudyResult>(RunStudy(request, Known(), control).value()).plans;
  ASSERT_FALSE(plans.empty());
  for (const RankedPlan& plan : plans) {
    ASSERT_TRUE(plan.estimate.cost_model.has_value());
    EXPECT_TRUE(plan.estimate.cost_model->is_fallback);
    EXPECT_EQ(plan.estimate.cost_model->reason, "does not start");
  }
  request.cost_model->allow_fallback = false;
  EXPECT_TRUE(absl::IsUnavailable(RunStudy(request, Known(), control).status()));
}

// If nothing fits by the vendor's memory model, the point says so and the sweep does not fail.
TEST(ModelSweepTest, APointThatDoesNotFitByTheModelIsNoFailure) {
  const auto judge = [](const ParallelPlan& /*plan*/, Seconds /*built_in*/) {
    return PlanFigures{.verdict = PlanVerdict::kInfeasibleMemory, .reason = "too large"};
  };
  const Sweep sweep =
      RunSweep(Asking("fake"), OwnRange(Asking("fake"), {1}, {0}), Known(), With(judge)).value();
  EXPECT_FALSE(sweep.points.front().best.has_value());
  EXPECT_THAT(sweep.warnings, Contains(HasSubstr("too large")));
  StudyRequest limited = Asking("fake");
  limited.evaluation_limit = 5;
  EXPECT_EQ(Reason(RunSweep(limited, OwnRange(limited, {1}, {0}), Known(), With(judge)).status()),
            "EVALUATION_LIMIT");
}

TEST(ModelSweepTest, PointsThatAreNotProvenAreNamed) {
  StudyRequest limited = Asking("fake");
  limited.evaluation_limit = 20;
  const Sweep sweep =
      RunSweep(limited, OwnRange(limited, {1}, {0}), Known(), With(AsBuiltIn)).value();
  EXPECT_TRUE(sweep.points.front().best.has_value());
  EXPECT_THAT(sweep.warnings, Contains(HasSubstr("the best of the 20 plans that it estimated, "
                                                 "not proven best")));
}

TEST(ModelSweepTest, APointWithoutAnEstimateIsNamed) {
  const auto unsupported = [](const ParallelPlan& /*plan*/, Seconds /*built_in*/) {
    return PlanFigures{.verdict = PlanVerdict::kUnsupported, .reason = "no such chip"};
  };
  const absl::Status none =
      RunSweep(Asking("fake"), OwnRange(Asking("fake"), {1}, {0}), Known(), With(unsupported))
          .status();
  EXPECT_EQ(Reason(none), "COST_MODEL_NO_ESTIMATE");
  EXPECT_THAT(std::string(none.message()), HasSubstr("4 devices at 0 % of the memory free"));
  EXPECT_THAT(std::string(none.message()), HasSubstr("no such chip"));
  EXPECT_EQ(
      Reason(RunSweep(Asking("fake"), OwnRange(Asking("fake"), {1}, {0}), Known(), {}).status()),
      "NO_COST_MODELS");
}

// The answer names the plans that the model left out.
TEST(ModelSweepTest, WarnsOfPlansWithoutAnEstimate) {
  const auto judge = [](const ParallelPlan& plan, Seconds built_in) {
    if (plan.tensor_parallel == 1) {
      return PlanFigures{.verdict = PlanVerdict::kUnsupported, .reason = "no data parallelism"};
    }
    return AsBuiltIn(plan, built_in);
  };
  const Sweep sweep =
      RunSweep(Asking("fake"), OwnRange(Asking("fake"), {1, 2}, {0}), Known(), With(judge)).value();
  EXPECT_THAT(sweep.warnings, Contains(HasSubstr("not supported by it; the first: no data")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

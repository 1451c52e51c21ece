#include "server/tuner/answers/explain.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

StudyResult Tuned(const StudyRequest& request) {
  return std::get<StudyResult>(RunStudy(request, Known(), {}).value());
}

// Returns three runs on this many nodes that took `slower` times the modelled time.
std::vector<HistoryRow> Runs(int node_count, double slower) {
  HistoryRow row = {.question = TinyQuestion(), .plan = {.tensor_parallel = 2}};
  row.question.cluster.pools = {Nodes(node_count, 4)};
  row.step_time = EvaluatePlan({row.question, row.plan}, Known(), {})->step_time * slower;
  return {row, row, row};
}

const Sensitivity& Of(const Explanation& explanation, std::string_view resource, double change) {
  return *std::ranges::find_if(explanation.sensitivities, [&](const Sensitivity& s) {
    return s.resource == resource && s.change == change;
  });
}

// The explained plan is tune's own answer, and each changed cluster's best plan is tune's answer
// there.
TEST(ExplainTest, AgreesWithTune) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.cluster.pools.front().intra_node.bandwidth = BytesPerSecond{300e9};
  const Explanation explanation = Explain(request, Known(), {}).value();
  const StudyResult result = Tuned(request);
  EXPECT_EQ(explanation.best.plan, result.plans.front().plan);
  EXPECT_EQ(explanation.best.estimate.step_time, result.plans.front().estimate.step_time);
  EXPECT_EQ(explanation.plan.plan, explanation.best.plan);
  EXPECT_EQ(explanation.sensitivities.size(), 10u);
  StudyRequest faster = request;
  faster.question.cluster.pools.front().intra_node.bandwidth = BytesPerSecond{1.1 * 300e9};
  const Sensitivity& links = Of(explanation, "intra_node_bandwidth", 0.1);
  ASSERT_TRUE(links.best.has_value());
  EXPECT_NEAR(links.best->estimate.step_time / Tuned(faster).plans.front().estimate.step_time, 1,
              1e-9);
}

// More of a resource never makes the best plan slower, and less never faster. The binding resource
// is the one that gains most.
TEST(ExplainTest, MoreIsNeverWorse) {
  const Explanation explanation = Explain({.question = TinyQuestion()}, Known(), {}).value();
  Seconds least = explanation.best.estimate.step_time;
  for (const Sensitivity& s : explanation.sensitivities) {
    ASSERT_TRUE(s.best.has_value());
    const double ratio = s.best->estimate.step_time / explanation.best.estimate.step_time;
    if (s.change > 0) {
      EXPECT_LE(ratio, 1 + 1e-12) << s.resource;
      least = std::min(least, s.best->estimate.step_time);
    } else {
      EXPECT_GE(ratio, 1 - 1e-12) << s.resource;
    }
    EXPECT_GE(s.same.estimate.step_time, s.best->estimate.step_time * (1 - 1e-12));
  }
  EXPECT_EQ(Of(explanation, explanation.binding, 0.1).best->estimate.step_time, least);
}

TEST(ExplainTest, ABaselineIsExplained) {
  StudyRequest request = {.question = TinyQuestion(),
                          .baseline = PlanRequest{.tensor_parallel = 4}};
  const Explanation explanation = Explain(request, Known(), {}).value();
  EXPECT_EQ(explanation.plan.plan.tensor_parallel, 4);
  EXPECT_GT(explanation.plan.estimate.step_time, explanation.best.estimate.step_time);
}

// If the fastest plan needs too much memory, it is named with its need.
TEST(ExplainTest, TheFastestPlanThatDoesNotFit) {
  StudyRequest request = {.question = TinyQuestion()};
  const Estimate best = Tuned(request).plans.front().estimate;
  request.question.cluster.pools.front().memory_capacity = best.reserved_memory - Bytes{1};
  const Explanation explanation = Explain(request, Known(), {}).value();
  ASSERT_FALSE(explanation.near_misses.empty());
  EXPECT_THAT(explanation.near_misses.front().reason, HasSubstr("faster, but needs"));
  EXPECT_EQ(explanation.near_misses.front().plan.estimate.step_time, best.step_time);
}

// An explanation has the same calibration as tune's answer.
TEST(ExplainTest, NamesTheRunsItLeansOn) {
  StudyRequest request = {.question = TinyQuestion()};
  EXPECT_EQ(Explain(request, Known(), {})->calibration, std::nullopt);
  request.history = Runs(1, 1.1);
  const Explanation explanation = Explain(request, Known(), {}).value();
  ASSERT_TRUE(explanation.calibration.has_value());
  EXPECT_EQ(explanation.calibration->run_count, 3);
  EXPECT_EQ(explanation.calibration, Tuned(request).calibration);
}

// The plan that tune recommends is explained, and compared with plans that fit as surely.
TEST(ExplainTest, ExplainsThePlanToLaunch) {
  const StudyRequest request = TightRequest();
  const StudyResult result = Tuned(request);
  const Explanation explanation = Explain(request, Known(), {}).value();
  EXPECT_EQ(explanation.plan.plan, result.plans.front().plan);
  EXPECT_EQ(explanation.launch.plan, result.plans.front().plan);
  EXPECT_EQ(explanation.recommendation, result.recommendation);
  const Estimate& best = explanation.best.estimate;
  EXPECT_GE(best.fit_probability, 0.95);
  EXPECT_LE(best.step_time, explanation.plan.estimate.step_time);
  const ParallelPlan& optimum = result.model_optimum->plan;
  ASSERT_LT(result.model_optimum->estimate.fit_probability, 0.95);
  const auto miss = std::ranges::find_if(explanation.near_misses,
                                         [&](const NearMiss& m) { return m.plan.plan == optimum; });
  ASSERT_NE(miss, explanation.near_misses.end());
  EXPECT_THAT(miss->reason, HasSubstr("faster, but fits with a probability of"));
  for (const Sensitivity& s : explanation.sensitivities) {
    ASSERT_TRUE(s.best.has_value()) << s.resource;
    EXPECT_GE(s.best->estimate.fit_probability, 0.95) << s.resource;
  }
}

TEST(ExplainTest, NothingFits) {
  StudyRequest request = {.question = TinyQuestion()};
  request.question.cluster.pools.front().memory_capacity = GiB(0.1);
  EXPECT_EQ(Reason(Explain(request, Known(), {}).status()), "NO_FEASIBLE_PLAN");
}

// Every point is tune's answer for that cluster; leaving more memory free never makes it faster.
// Comparisons of best plans refuse strategies without proof.
TEST(ExplainTest, OtherStrategiesAreRefused) {
  const StudyRequest request = {.question = TinyQuestion(), .strategy = "random"};
  for (const absl::Status& status :
       {Explain(request, Known(), {}).status(),
        RunSweep(request, OwnRange(request, {1}, {0}), Known(), {}).status()}) {
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("strategy = random; "));
  }
}

TEST(SweepTest, PointsAreTunesAnswers) {
  const StudyRequest request = {.question = TinyQuestion()};
  const Sweep sweep = RunSweep(request, OwnRange(request, {1, 2}, {0, 0.9}), Known(), {}).value();
  ASSERT_EQ(sweep.points.size(), 4u);
  for (const SweepPoint& point : sweep.points) {
    StudyRequest own = request;
    own.question.cluster.pools = {Nodes(point.device_count / 4, 4)};
    const RankedPlan best = Tuned(own).plans.front();
    if (point.free_memory_ratio == 0) {
      ASSERT_TRUE(point.best.has_value());
      EXPECT_EQ(point.best->plan, best.plan);
      EXPECT_EQ(point.best->estimate.step_time, best.estimate.step_time);
      EXPECT_DOUBLE_EQ(point.device_seconds_per_token,
                       point.device_count * best.estimate.step_time.count() / (16 * 1024));
    } else {
      ASSERT_TRUE(point.best.has_value());
      EXPECT_GE(point.best->estimate.step_time, best.estimate.step_time);
      EXPECT_LE(point.best->estimate.reserved_memory, Scale(GiB(80), 0.1));
    }
  }
}

// A point does not show a plan that barely fits while another one is sure to.
TEST(SweepTest, PointsFitSurely) {
  StudyRequest request = TightRequest();
  const SweepPoint sure =
      RunSweep(request, OwnRange(request, {2}, {0}), Known(), {})->points.front();
  EXPECT_GE(sure.best.value().estimate.fit_probability, 0.95);
  request.choice.min_fit_probability = 0;
  const SweepPoint fastest =
      RunSweep(request, OwnRange(request, {2}, {0}), Known(), {})->points.front();
  EXPECT_LT(fastest.best.value().estimate.fit_probability, 0.95);
  EXPECT_LT(fastest.best->estimate.step_time, sure.best->estimate.step_time);
  // If none is sure, the fastest of all is shown; if none fits, offload is opened.
  request.choice.min_fit_probability = kMaxFitProbability;
  request.question.cluster.pools.front().memory_capacity = GiB(11);
  EXPECT_LT(RunSweep(request, OwnRange(request, {2}, {0}), Known(), {})
                ->points.front()
                .best->estimate.fit_probability,
            kMaxFitProbability);
  request.question.cluster.pools.front().memory_capacity = GiB(6);
  const Sweep tightest = RunSweep(request, OwnRange(request, {2}, {0}), Known(), {}).value();
  EXPECT_GT(tightest.points.front().best.value().plan.optimizer_offload_ratio, 0);
  EXPECT_THAT(tightest.warnings,
              testing::Contains(HasSubstr("no plan fits unless optimizer states are offloaded")));
}

// The history is selected per job, as in tune: runs on one node and on two differ.
TEST(SweepTest, EachPointLeansOnTheHistoryOfItsOwnSize) {
  const StudyControl control = {
      .history = {
          .sequence = 6, .read = [](const Problem& problem) -> absl::StatusOr<StoreHistory> {
            const int nodes = problem.cluster.pools.front().node_count;
            return StoreHistory{.rows = Shared(ResolvedRows(Runs(nodes, nodes == 1 ? 1.1 : 1.4))),
                                .warnings = {fmt::format("drift on {} nodes", nodes)}};
          }}};
  const StudyRequest request = {.question = TinyQuestion()};
  const Sweep sweep = RunSweep(request, OwnRange(request, {1, 2}, {0}), Known(), control).value();
  ASSERT_EQ(sweep.points.size(), 2u);
  for (const SweepPoint& point : sweep.points) {
    StudyRequest own = request;
    own.question.cluster.pools = {Nodes(point.device_count / 4, 4)};
    const auto tuned = std::get<StudyResult>(RunStudy(own, Known(), control).value());
    ASSERT_TRUE(tuned.calibration.has_value());
    EXPECT_EQ(tuned.calibration->history_sequence, 6);
    EXPECT_EQ(point.best->estimate.step_time, tuned.plans.front().estimate.step_time);
    EXPECT_GT(point.best->estimate.step_time, Tuned(own).plans.front().estimate.step_time);
  }
  EXPECT_THAT(sweep.warnings, testing::IsSupersetOf({"with 4 devices: drift on 1 nodes",
                                                     "with 8 devices: drift on 2 nodes"}));
}

// A point is off the front if another is at least as good in all three and better in one.
TEST(SweepTest, Front) {
  const Sweep sweep =
      RunSweep({.question = TinyQuestion()},
               OwnRange(StudyRequest{.question = TinyQuestion()}, {1, 2}, {0, 0.5}), Known(), {})
          .value();
  for (const SweepPoint& point : sweep.points) {
    bool is_beaten = false;
    for (const SweepPoint& other : sweep.points) {
      const bool no_worse = other.best->estimate.step_time <= point.best->estimate.step_time &&
                            other.device_count <= point.device_count &&
                            other.free_memory_ratio >= point.free_memory_ratio;
      const bool differs = other.best->estimate.step_time != point.best->estimate.step_time ||
                           other.device_count != point.device_count ||
                           other.free_memory_ratio != point.free_memory_ratio;
      is_beaten = is_beaten || (no_worse && differs);
    }
    EXPECT_EQ(point.is_on_front, !is_beaten);
  }
  // The tiny model leaves half of the memory free anyway: all of it for nothing is beaten.
  EXPECT_FALSE(sweep.points.front().is_on_front);
}

// The baseline is legal on one node only. A sweep compares nothing with it.
TEST(SweepTest, TakesNoBaseline) {
  const StudyRequest request = {.question = TinyQuestion(),
                                .baseline = PlanRequest{.data_parallel = 4}};
  const auto sweep = RunSweep(request, OwnRange(request, {1, 2}, {0}), Known(), {});
  ASSERT_TRUE(sweep.ok()) << sweep.status();
  EXPECT_EQ(sweep->points.size(), 2u);
}

TEST(SweepTest, MistakesAreNamed) {
  const auto sweep =
      RunSweep({.question = TinyQuestion()},
               OwnRange(StudyRequest{.question = TinyQuestion()}, {0, 2}, {0, 1}), Known(), {});
  const std::vector<FieldViolation> violations = FieldViolations(sweep.status());
  ASSERT_EQ(violations.size(), 2u);
  EXPECT_EQ(violations[0].field, "node_counts[0]");
  EXPECT_EQ(violations[1].field, "free_memory_ratios[1]");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

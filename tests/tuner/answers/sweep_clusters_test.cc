#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/answers/sweep.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/training_run.h"
#include "tests/tuner/questions.h"
#include "tests/tuner/resolve.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

StudyRequest TinyRun(double tokens, std::optional<double> max_days = {}) {
  return {.question = TinyQuestion(),
          .run = TrainingRun{.token_count = tokens, .max_days = max_days}};
}

ClusterRequest Slower() {
  ClusterRequest cluster = TinyQuestion().cluster;
  cluster.name = "slower";
  cluster.pools.front().chip = "nvidia-v100-sxm2-32gb";
  return cluster;
}

SweepRange OwnAnd(const StudyRequest& request, ClusterRequest other, std::vector<int> nodes) {
  SweepRange range = OwnRange(request, nodes, {0});
  range.clusters.push_back({.cluster = std::move(other), .node_counts = std::move(nodes)});
  return range;
}

TEST(SweepClustersTest, EachClusterIsAnsweredAsTuneWould) {
  const StudyRequest request = {.question = TinyQuestion()};
  const Sweep sweep = RunSweep(request, OwnAnd(request, Slower(), {1, 2}), Known(), {}).value();
  ASSERT_EQ(sweep.points.size(), 4u);
  for (const SweepPoint& point : sweep.points) {
    StudyRequest own = request;
    if (point.cluster_index == 1) own.question.cluster = Slower();
    own.question.cluster.pools.front().node_count = point.device_count / 4;
    const auto tuned = std::get<StudyResult>(RunStudy(own, Known(), {}).value());
    EXPECT_EQ(point.cluster_name, own.question.cluster.name);
    EXPECT_EQ(point.chip, own.question.cluster.pools.front().chip);
    ASSERT_TRUE(point.launch.has_value());
    EXPECT_EQ(point.launch->plan, tuned.plans.front().plan);
    EXPECT_EQ(point.launch->exports, tuned.plans.front().exports);
    EXPECT_EQ(point.best->estimate.step_time, tuned.model_optimum->estimate.step_time);
  }
  EXPECT_EQ(sweep.points[2].cluster_index, 1);
  EXPECT_FALSE(sweep.recommended.has_value());
  EXPECT_EQ(sweep.reason, "");
}

// A cluster is on the front of its own sizes, however slow it is.
TEST(SweepClustersTest, TheFrontIsOfOneCluster) {
  const StudyRequest request = {.question = TinyQuestion()};
  const Sweep sweep = RunSweep(request, OwnAnd(request, Slower(), {1}), Known(), {}).value();
  EXPECT_TRUE(sweep.points[0].is_on_front);
  EXPECT_TRUE(sweep.points[1].is_on_front);
}

TEST(SweepClustersTest, MistakesOfAnotherClusterAreItsOwn) {
  const StudyRequest request = {.question = TinyQuestion()};
  ClusterRequest wrong = Slower();
  wrong.pools.front().chip = "none-such";
  const auto fields = FieldViolations(
      RunSweep(request, OwnAnd(request, std::move(wrong), {1}), Known(), {}).status());
  ASSERT_EQ(fields.size(), 1u);
  EXPECT_EQ(fields.front().field, "clusters[0].pools[0].chip");
  const auto none = RunSweep(request, OwnAnd(request, Slower(), {0}), Known(), {});
  EXPECT_THAT(std::string(none.status().message()), HasSubstr("clusters[0].node_counts[0]"));
}

TEST(SweepClustersTest, WarningsNameTheCluster) {
  const StudyRequest request = {.question = TinyQuestion()};
  const StudyControl control = {
      .history = {.sequence = 1,
                  .read = [](const Problem& problem) -> absl::StatusOr<StoreHistory> {
                    return StoreHistory{.warnings = {"drift of " + problem.cluster.name}};
                  }}};
  const Sweep sweep = RunSweep(request, OwnAnd(request, Slower(), {1}), Known(), control).value();
  EXPECT_THAT(sweep.warnings, Contains("with 4 devices of slower: drift of slower"));
}

// The run of each point is its own step times the steps: the smallest size that ends in time is
// taken, and with prices the cheapest.
TEST(SweepRunTest, TheSmallestSizeInTimeIsTaken) {
  const Sweep timed =
      RunSweep(TinyRun(1e9), OwnRange(TinyRun(1e9), {1, 2, 4}, {0}), Known(), {}).value();
  ASSERT_EQ(timed.points.size(), 3u);
  EXPECT_FALSE(timed.recommended.has_value());
  const double of_two = timed.points[1].launch->run->days;
  ASSERT_LT(of_two, timed.points[0].launch->run->days);

  const StudyRequest limited = TinyRun(1e9, of_two);
  const Sweep sweep = RunSweep(limited, OwnRange(limited, {1, 2, 4}, {0}), Known(), {}).value();
  ASSERT_TRUE(sweep.recommended.has_value());
  EXPECT_EQ(*sweep.recommended, 1u);
  EXPECT_THAT(sweep.reason,
              StartsWith("8 devices of c: of the sizes that were tried, it is the smallest"));

  const StudyRequest hopeless = TinyRun(1e9, 1e-6);
  const Sweep none = RunSweep(hopeless, OwnRange(hopeless, {1, 2, 4}, {0}), Known(), {}).value();
  EXPECT_FALSE(none.recommended.has_value());
  EXPECT_THAT(none.reason, StartsWith("the run ends within 1e-06 days on no size"));
}

TEST(SweepRunTest, WithPricesTheCheapestIsTaken) {
  StudyRequest request = TinyRun(1e9, 1000);
  request.run->device_hour_prices = {{.price = 1000},
                                     {.price = 0.01, .chip = "nvidia-v100-sxm2-32gb"}};
  const Sweep sweep = RunSweep(request, OwnAnd(request, Slower(), {1, 2}), Known(), {}).value();
  ASSERT_TRUE(sweep.recommended.has_value());
  EXPECT_EQ(sweep.points[*sweep.recommended].cluster_name, "slower");
  EXPECT_THAT(sweep.reason, HasSubstr("the cheapest"));
  // Without a price for one of them, prices cannot be compared.
  request.run->device_hour_prices.erase(request.run->device_hour_prices.begin());
  const Sweep unpriced = RunSweep(request, OwnAnd(request, Slower(), {1, 2}), Known(), {}).value();
  EXPECT_EQ(unpriced.points[*unpriced.recommended].device_count, 4);
  EXPECT_THAT(unpriced.reason, HasSubstr("the smallest"));
}

// The plan on one node needs the host's memory, whose cost is assumed; two nodes do without.
TEST(SweepRunTest, WhatRestsOnAnAssumedHostIsTakenLast) {
  StudyRequest request = TightRequest();
  request.question.cluster.pools.front().memory_capacity = GiB(10);
  request.run = TrainingRun{.token_count = 1e9, .max_days = 10'000};
  const Sweep sweep = RunSweep(request, OwnRange(request, {1, 4}, {0}), Known(), {}).value();
  ASSERT_TRUE(sweep.points[0].launch.has_value());
  ASSERT_GT(sweep.points[0].launch->plan.optimizer_offload_ratio, 0);
  ASSERT_EQ(sweep.points[1].launch->plan.optimizer_offload_ratio, 0);
  EXPECT_EQ(sweep.recommended, std::optional<std::size_t>(1));
}

TEST(SweepRunTest, SharesGoUpToTheWholeCluster) {
  EXPECT_THAT(SharesOf(1), ElementsAre(1));
  EXPECT_THAT(SharesOf(3), ElementsAre(1, 2, 3));
  EXPECT_THAT(SharesOf(10), ElementsAre(1, 2, 3, 4, 6, 8, 10));
  EXPECT_THAT(SharesOf(16), ElementsAre(1, 2, 3, 4, 6, 8, 12, 16));
}

// Every plan of an answer says what the run takes with it.
TEST(TuneRunTest, EveryPlanHasItsCost) {
  const auto result = std::get<StudyResult>(RunStudy(TinyRun(16'384'000), Known(), {}).value());
  for (const RankedPlan& plan : result.plans) {
    ASSERT_TRUE(plan.run.has_value());
    EXPECT_EQ(plan.run->step_count, 1000);
    EXPECT_DOUBLE_EQ(plan.run->days, 1000 * plan.estimate.step_time.count() / 86'400);
  }
  ASSERT_TRUE(result.baseline.has_value() && result.baseline->run.has_value());
  EXPECT_GE(result.baseline->run->days, result.model_optimum->run->days);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

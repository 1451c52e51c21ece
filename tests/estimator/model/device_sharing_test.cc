#include "estimator/model/device_sharing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "estimator/model/plan_bounds.h"
#include "estimator/model/stage.h"
#include "estimator/pipeline/operation.h"
#include "estimator/pipeline/pipeline.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/chip_calibration/chip_calibration.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Walks 1F1B event by event on a node whose physical devices are divided evenly among the stages
// that are ready.
class FairWalk {
 public:
  // A backward takes as long as two forwards; `per_physical` devices share each physical one.
  FairWalk(const std::vector<double>& forwards, int micro_batches, double per_physical)
      : micro_batches_(static_cast<std::size_t>(micro_batches)), per_physical_(per_physical) {
    for (const double forward : forwards) stages_.push_back({.forward = forward});
    for (std::size_t i = 0; i < stages_.size(); ++i) Begin(i);
  }

  double Run() {
    double clock = 0;
    for (;;) {
      std::vector<std::size_t> ready;
      for (std::size_t i = 0; i < stages_.size(); ++i) {
        if (IsReady(i)) ready.push_back(i);
      }
      if (ready.empty()) return clock;
      const double free = static_cast<double>(stages_.size()) / per_physical_;
      const double rate = std::min(1.0, free / static_cast<double>(ready.size()));
      double step = stages_[ready.front()].left;
      for (const std::size_t i : ready) step = std::min(step, stages_[i].left);
      clock += step / rate;
      for (const std::size_t i : ready) Advance(i, step);
    }
  }

 private:
  struct Stage {
    double forward = 1;
    std::size_t forwards = 0;  // done
    std::size_t backwards = 0;
    bool runs_forward = true;
    double left = 0;  // work left of the operation that it runs or waits for
  };

  void Begin(std::size_t i) {
    Stage& stage = stages_[i];
    const std::size_t warm_up = std::min(micro_batches_, stages_.size() - 1 - i);
    stage.runs_forward =
        stage.forwards < micro_batches_ && stage.forwards - stage.backwards <= warm_up;
    stage.left = stage.runs_forward ? stage.forward : 2 * stage.forward;
  }

  [[nodiscard]] bool IsReady(std::size_t i) const {
    const Stage& stage = stages_[i];
    if (stage.backwards == micro_batches_) return false;
    if (stage.runs_forward) return i == 0 || stages_[i - 1].forwards > stage.forwards;
    return i + 1 == stages_.size() || stages_[i + 1].backwards > stage.backwards;
  }

  void Advance(std::size_t i, double work) {
    Stage& stage = stages_[i];
    stage.left -= work;
    if (stage.left > 1e-12) return;
    ++(stage.runs_forward ? stage.forwards : stage.backwards);
    Begin(i);
  }

  std::size_t micro_batches_;
  double per_physical_;
  std::vector<Stage> stages_;
};

// SharedPipelineTime of the same.
double Expected(const std::vector<double>& forwards, int micro_batches, double per_physical) {
  std::vector<OccupiedRun> runs;
  for (const double forward : forwards) runs.push_back({.time = Seconds(3 * forward), .count = 1});
  const Seconds alone(FairWalk(forwards, micro_batches, 1).Run());
  const auto stages = static_cast<int>(forwards.size());
  return SharedPipelineTime(alone, runs, micro_batches,
                            {.per_physical = per_physical, .stages_per_node = stages})
      .count();
}

TEST(SharedPipelineTime, BubblesOfTwoStagesOnOneDeviceCostNothing) {
  EXPECT_DOUBLE_EQ(FairWalk({1, 1}, 4, 2).Run(), 24);  // 2 stages, 4 micro-batches of 3 s
  EXPECT_DOUBLE_EQ(Expected({1, 1}, 4, 2), 24);
  EXPECT_DOUBLE_EQ(FairWalk({1, 1}, 4, 1).Run(), 15);
  // An uneven split makes no difference: the work is the same.
  EXPECT_DOUBLE_EQ(FairWalk({1.5, 0.5}, 4, 2).Run(), 24);
  EXPECT_DOUBLE_EQ(Expected({1.5, 0.5}, 4, 2), 24);
}

TEST(SharedPipelineTime, OneMicroBatchHasTheDeviceForItself) {
  EXPECT_DOUBLE_EQ(FairWalk({1, 1, 1, 1}, 1, 2).Run(), 12);
  EXPECT_DOUBLE_EQ(Expected({1, 1, 1, 1}, 1, 2), 12);
}

TEST(SharedPipelineTime, NeverAboveAFairWalkAndNear) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> forward(0.5, 1.5);
  double sum = 0;
  int count = 0;
  for (const int stages : {2, 3, 4, 8}) {
    for (const int micro_batches : {1, 2, 4, 8, 32}) {
      for (const double per_physical : {1.5, 2.0, 4.0}) {
        if (per_physical > stages) continue;
        std::vector<double> forwards(static_cast<std::size_t>(stages));
        for (double& time : forwards) time = forward(random);
        const double walked = FairWalk(forwards, micro_batches, per_physical).Run();
        const double expected = Expected(forwards, micro_batches, per_physical);
        const double low = 1 - expected / walked;
        EXPECT_GE(low, -1e-9) << stages << " " << micro_batches << " " << per_physical;
        EXPECT_LE(low, 0.25) << stages << " " << micro_batches << " " << per_physical;
        sum += low;
        ++count;
      }
    }
  }
  EXPECT_LE(sum / count, 0.06);
}

// Eight devices on four physical ones.
OwnedProblem Shared() {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 1);
  problem.cluster.pools.front().physical_devices_per_node = 4;
  return problem;
}

struct Case {
  const char* name;
  ParallelPlan plan;
  int stages_per_node;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class SharedPlanTest : public testing::TestWithParam<Case> {};

TEST_P(SharedPlanTest, LiesBetweenItsDevicesAloneAndAllBusy) {
  const ParallelPlan& plan = GetParam().plan;
  const OwnedProblem problem = Shared();
  const OwnedProblem own = PlainProblem(Llama2_7b(), 1);
  AnalyticModel model(problem.View());
  const Estimate shared = model.Full(plan);
  const Estimate alone = AnalyticModel(own.View()).Full(plan);
  EXPECT_GT(shared.step_time, alone.step_time);
  EXPECT_LE(shared.step_time, 2 * alone.step_time * (1 + 1e-12));
  if (plan.pipeline_parallel == 1) {  // all wait and compute together
    EXPECT_NEAR(shared.step_time / alone.step_time, 2, 1e-9);
  } else {
    EXPECT_LT(shared.step_time, 1.99 * alone.step_time);
  }
  const Seconds sum = std::accumulate(shared.breakdown.begin(), shared.breakdown.end(), Seconds(0));
  EXPECT_NEAR(sum / shared.step_time, 1, 1e-9);
  for (const Seconds part : shared.breakdown) EXPECT_GE(part.count(), -1e-12);
  // The utilisation of the four physical devices follows from the length of the step.
  EXPECT_NEAR(shared.model_flops_utilization * (shared.step_time / alone.step_time),
              2 * alone.model_flops_utilization, 1e-9);
  EXPECT_EQ(model.Quick(plan).step_time, shared.step_time);
  EXPECT_LE(model.ClosedForm(plan).step_time.count(), 1.2 * shared.step_time.count());
  EXPECT_LE(*PlanBounds(model).LeastTimeIfPriced(plan), shared.step_time);
  EXPECT_LE(*PlanBounds(model).LeastTimeBelow(plan), shared.step_time);
  EXPECT_LE(PlanBounds(model).LeastTimeOfPipeline(plan), shared.step_time);
  const Timeline timeline = model.TimelineOf(plan);
  EXPECT_EQ(timeline.step, shared.step_time);
  Seconds last(0);
  for (const ScheduledOperation& op : timeline.operations) last = std::max(last, op.end);
  EXPECT_NEAR(last / timeline.pipeline, 1, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(
    All, SharedPlanTest,
    testing::Values(Case{"Data", {.data_parallel = 8}, 1},
                    Case{"Tensor", {.tensor_parallel = 8, .sequence_parallel = true}, 1},
                    Case{"Pipeline", {.pipeline_parallel = 4, .data_parallel = 2}, 4},
                    Case{"Interleaved",
                         {.pipeline_parallel = 4,
                          .virtual_pipeline = 2,
                          .data_parallel = 2,
                          .schedule = Schedule::kInterleaved1f1b},
                         4},
                    Case{"Uneven",
                         {.pipeline_parallel = 2, .data_parallel = 4, .layers_per_stage = {20, 12}},
                         2},
                    Case{"BothDirections",
                         {.pipeline_parallel = 4,
                          .data_parallel = 2,
                          .schedule = Schedule::kDualpipe,
                          .layers_per_stage = {11, 7, 7, 7}},
                         4},
                    Case{"ZeroBubble",
                         {.pipeline_parallel = 4, .data_parallel = 2, .schedule = Schedule::kZbH1},
                         4}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(SharedPlanTest, StagesOfANode) {
  const OwnedProblem problem = Shared();
  const ParallelPlan& plan = GetParam().plan;
  StageDevices devices = {.pool = &problem.cluster.pools.front(),
                          .data_parallel = plan.data_parallel};
  devices.sharding.tensor_parallel = plan.tensor_parallel;
  const DeviceSharing sharing = SharingOf(devices, plan.pipeline_parallel, plan.rank_order);
  EXPECT_EQ(sharing.per_physical, 2);
  EXPECT_EQ(sharing.stages_per_node, GetParam().stages_per_node);
}

// In a pipeline across nodes, where each stage fills a node, no device computes while they wait.
TEST(SharedPipeline, StagesThatFillANodeWaitTogether) {
  OwnedProblem problem = PlainProblem(Llama2_7b(), 4);
  const ParallelPlan plan = {.pipeline_parallel = 4, .data_parallel = 8};
  const Seconds alone = AnalyticModel(problem.View()).Quick(plan).step_time;
  problem.cluster.pools.front().physical_devices_per_node = 4;
  EXPECT_NEAR(AnalyticModel(problem.View()).Quick(plan).step_time / alone, 2, 1e-9);
  // With the pipeline's neighbours in the node they do not.
  ParallelPlan other = plan;
  other.rank_order = RankOrder::kTpCpEpPpDp;
  EXPECT_LT(AnalyticModel(problem.View()).Quick(other).step_time / alone, 1.99);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

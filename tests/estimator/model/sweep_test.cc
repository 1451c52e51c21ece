#include <gtest/gtest.h>

#include <ostream>
#include <random>

#include "estimator/model/analytic_model.h"
#include "estimator/model/plan_bounds.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Laws that hold for every plan, over plans drawn from the search space.

struct Sweep {
  const char* name;
  ModelSpec model;
  const char* chip;
  int node_count;
  const char* framework;
};

void PrintTo(const Sweep& c, std::ostream* out) { *out << c.name; }

ModelSpec DeepseekWithMtp() {
  ModelSpec model = DeepseekV3();
  model.mtp_layer_count = 1;
  model.moe->imbalance_ratio = 1.2;
  return model;
}

const Sweep kSweeps[] = {
    {"Llama70bMegatron", Llama2_70b(), "nvidia-a100-sxm4-80gb", 16, "megatron-core"},
    {"DeepseekMegatron", DeepseekWithMtp(), "nvidia-h100-sxm5-80gb", 64, "megatron-core"},
    {"Llama7bNanotron", Llama2_7b(), "nvidia-h100-sxm5-80gb", 4, "nanotron"},
    {"MixtralMindspeed", Mixtral_8x7b(), "huawei-ascend-910b-313t", 8, "mindspeed"},
    {"Gpt3Old", Gpt3_175b(), "nvidia-a100-sxm4-80gb", 64, "megatron-lm"},
};

constexpr int kPlansEach = 60;

OwnedProblem ProblemOf(const Sweep& sweep) {
  return FrameworkProblem(sweep.model, sweep.chip, sweep.node_count, sweep.framework);
}

std::vector<ParallelPlan> DrawPlans(const OwnedProblem& problem) {
  const SearchSpace space(problem.model, DeviceCount(problem.cluster),
                          problem.workload.global_batch_size,
                          {.context_parallel_kinds = problem.profile.context_parallel_kinds,
                           .schedules = problem.profile.schedules,
                           .rank_orders = problem.profile.rank_orders,
                           .fabric_devices = ScaleUpDeviceCount(problem.cluster.pools.front()),
                           .sizes_end_stages = problem.profile.sizes_end_stages,
                           .shards_in_groups = problem.profile.shards_in_groups,
                           .whole_weights_percents = {0, 40},
                           .activation_offload_percents = {0, 40}});
  std::mt19937 random(7);
  std::vector<ParallelPlan> plans;
  while (plans.size() < kPlansEach) {
    ParallelPlan plan = space.Root();
    bool is_dead_end = false;
    for (int i = 0; i < kDimensionCount && !is_dead_end; ++i) {
      const auto dimension = static_cast<Dimension>(i);
      const std::vector<int> values = space.Values(dimension, plan);
      is_dead_end = values.empty();
      if (!is_dead_end) space.Set(dimension, values[random() % values.size()], plan);
    }
    if (!is_dead_end) plans.push_back(plan);
  }
  return plans;
}

class SweepTest : public testing::TestWithParam<Sweep> {};

// Peak and the gaps that activations and transients leave (docs/cost_model/memory.md "Transients").
Bytes InUse(const StageMemory& stage, const FrameworkProfile& profile) {
  const Bytes moving = stage.breakdown[static_cast<std::size_t>(MemoryKind::kActivations)] +
                       stage.breakdown[static_cast<std::size_t>(MemoryKind::kTransient)];
  return stage.peak + Scale(moving, 1 / profile.allocator_efficiency - 1);
}

TEST_P(SweepTest, BreakdownAddsUp) {
  const OwnedProblem problem = ProblemOf(GetParam());
  AnalyticModel model(problem.View());
  for (const ParallelPlan& plan : DrawPlans(problem)) {
    SCOPED_TRACE(MakePlanKey(plan).text);
    const Estimate estimate = model.Full(plan);
    Seconds time(0);
    for (const Seconds part : estimate.breakdown) {
      EXPECT_GE(part.count(), -1e-12 * estimate.step_time.count());
      time += part;
    }
    EXPECT_NEAR(time / estimate.step_time, 1, 1e-9);
    ASSERT_EQ(estimate.stage_memory.size(), static_cast<std::size_t>(StageCount(plan)));
    Bytes most_used = {};
    for (const StageMemory& stage : estimate.stage_memory) {
      Bytes memory = {};
      for (const Bytes part : stage.breakdown) {
        EXPECT_GE(part.count, 0);
        memory += part;
      }
      EXPECT_EQ(memory, stage.peak);
      most_used = std::max(most_used, InUse(stage, problem.profile));
    }
    // The busiest stage is the one with least room, which need not have the largest peak.
    const auto busiest = static_cast<std::size_t>(estimate.busiest_stage);
    EXPECT_EQ(InUse(estimate.stage_memory[busiest], problem.profile), most_used);
    EXPECT_EQ(estimate.stage_memory[busiest].peak, estimate.peak_memory);
    EXPECT_EQ(estimate.stage_memory[busiest].breakdown, estimate.memory_breakdown);
  }
}

TEST_P(SweepTest, FiguresAreInOrder) {
  const OwnedProblem problem = ProblemOf(GetParam());
  AnalyticModel model(problem.View());
  for (const ParallelPlan& plan : DrawPlans(problem)) {
    SCOPED_TRACE(MakePlanKey(plan).text);
    const Estimate estimate = model.Full(plan);
    EXPECT_GT(estimate.step_time.count(), 0);
    EXPECT_LT(estimate.step_time_low, estimate.step_time);
    EXPECT_LT(estimate.step_time, estimate.step_time_high);
    EXPECT_GT(estimate.model_flops_utilization, 0);
    EXPECT_LT(estimate.model_flops_utilization, 1);
    EXPECT_LT(estimate.peak_memory, estimate.reserved_memory);
    EXPECT_EQ(estimate.fits, estimate.reserved_memory <= estimate.memory_capacity);
    EXPECT_EQ(estimate.fits, estimate.fit_probability >= 0.5);
  }
}

// Quick, CheckMemory and Full agree to the last bit, whatever was asked before.
TEST_P(SweepTest, QuickIsFull) {
  const OwnedProblem problem = ProblemOf(GetParam());
  AnalyticModel model(problem.View());
  for (const ParallelPlan& plan : DrawPlans(problem)) {
    SCOPED_TRACE(MakePlanKey(plan).text);
    const QuickEstimate quick = model.Quick(plan);
    const Estimate full = AnalyticModel(problem.View()).Full(plan);
    EXPECT_EQ(quick.step_time, full.step_time);
    EXPECT_EQ(quick.reserved_memory, full.reserved_memory);
    EXPECT_EQ(quick.fits, full.fits);
    const MemoryCheck check = AnalyticModel(problem.View()).CheckMemory(plan);
    EXPECT_EQ(check.reserved_memory, full.reserved_memory);
    EXPECT_EQ(check.fits, full.fits);
  }
}

// Recomputing more keeps no more activations and takes no less time.
TEST_P(SweepTest, RecomputationTradesTimeForMemory) {
  const OwnedProblem problem = ProblemOf(GetParam());
  AnalyticModel model(problem.View());
  for (ParallelPlan plan : DrawPlans(problem)) {
    SCOPED_TRACE(MakePlanKey(plan).text);
    plan.recompute = {};
    plan.activation_offload_ratio = 0;  // no legal plan has both
    const Estimate none = model.Full(plan);
    plan.recompute.granularity = RecomputeGranularity::kSelective;
    EXPECT_GE(model.Full(plan).step_time, none.step_time);
    plan.recompute.granularity = RecomputeGranularity::kFull;
    const Estimate full = model.Full(plan);
    EXPECT_GE(full.step_time, none.step_time);
    for (std::size_t i = 0; i < none.stage_memory.size(); ++i) {
      EXPECT_LE(Line(full.stage_memory[i].breakdown, MemoryKind::kActivations),
                Line(none.stage_memory[i].breakdown, MemoryKind::kActivations));
    }
  }
}

// More activations on the host never take more memory nor, in a fixed order of operations, less
// time.
TEST_P(SweepTest, ActivationOffloadTradesTimeForMemory) {
  const OwnedProblem problem = ProblemOf(GetParam());
  AnalyticModel model(problem.View());
  for (ParallelPlan plan : DrawPlans(problem)) {
    if (!HasFixedOrder(plan.schedule)) continue;
    SCOPED_TRACE(MakePlanKey(plan).text);
    plan.recompute = {};
    plan.activation_offload_ratio = 0;
    QuickEstimate less = model.Quick(plan);
    for (int percent = 5; percent <= 100; percent += 5) {
      plan.activation_offload_ratio = percent / 100.0;
      const QuickEstimate more = model.Quick(plan);
      EXPECT_GE(more.step_time, less.step_time) << percent;
      EXPECT_LE(more.reserved_memory, less.reserved_memory) << percent;
      less = more;
    }
  }
}

// More whole weights never take less memory nor more time; each line is rounded to bytes, and so
// are messages.
TEST_P(SweepTest, WholeWeightsTradeMemoryForTime) {
  const OwnedProblem problem = ProblemOf(GetParam());
  AnalyticModel model(problem.View());
  for (ParallelPlan plan : DrawPlans(problem)) {
    SCOPED_TRACE(MakePlanKey(plan).text);
    plan.zero_stage = 3;
    plan.whole_weights_ratio = 0;
    QuickEstimate less = model.Quick(plan);
    for (int percent = 5; percent <= 100; percent += 5) {
      plan.whole_weights_ratio = percent / 100.0;
      const QuickEstimate more = model.Quick(plan);
      EXPECT_LE(more.step_time, less.step_time * (1 + 1e-12)) << percent;
      EXPECT_GE(more.reserved_memory.count + 8, less.reserved_memory.count) << percent;
      less = more;
    }
  }
}

// A bound of all plans that share some dimensions holds for each of them.
TEST_P(SweepTest, LeastMemoryBelowIsNotAboveTheMemory) {
  const OwnedProblem problem = ProblemOf(GetParam());
  AnalyticModel model(problem.View());
  for (const ParallelPlan& plan : DrawPlans(problem)) {
    const int finest = problem.profile.largest_zero_stage_with_pipeline;
    if (plan.pipeline_parallel > 1 && plan.zero_stage > finest) continue;  // not legal
    SCOPED_TRACE(MakePlanKey(plan).text);
    const PlanBounds bounds(model);
    const MostOffloaded most = {.optimizer = plan.optimizer_offload_ratio,
                                .activations = plan.activation_offload_ratio};
    EXPECT_LE(bounds.LeastMemoryBelow(plan, most), bounds.LeastMemoryOfZero(plan, most));
    EXPECT_LE(bounds.LeastMemoryOfZero(plan, most), model.Quick(plan).reserved_memory);
  }
}

// A larger device changes whether a plan fits, and nothing else.
TEST_P(SweepTest, MoreMemoryNeverHurts) {
  OwnedProblem problem = ProblemOf(GetParam());
  OwnedProblem larger = problem;
  larger.cluster.pools.front().memory_capacity = GiB(500);
  AnalyticModel model(problem.View());
  AnalyticModel larger_model(larger.View());
  for (const ParallelPlan& plan : DrawPlans(problem)) {
    const QuickEstimate before = model.Quick(plan);
    const QuickEstimate after = larger_model.Quick(plan);
    EXPECT_EQ(before.step_time, after.step_time);
    EXPECT_TRUE(after.fits || !before.fits) << MakePlanKey(plan).text;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SweepTest, testing::ValuesIn(kSweeps),
                         [](const auto& test) { return std::string(test.param.name); });

// Two pools, one stage each: the laws hold across pools, and the slower link between them shows.
TEST(MixedPools, BreakdownAddsUp) {
  OwnedProblem problem = FrameworkProblem(Llama2_7b(), "nvidia-a100-sxm4-80gb", 1, "megatron-core");
  problem.cluster.pools.push_back(PoolOf("nvidia-h100-sxm5-80gb", 1));
  problem.cluster.pools.back().name = "b";
  problem.cluster.inter_pool.bandwidth_per_node = {25e9};
  const StagePlan stage = {
      .pool = "a", .node_count = 1, .tensor_parallel = 4, .data_parallel = 2, .layer_count = 10};
  ParallelPlan plan = {.pipeline_parallel = 2, .stages = {stage, stage}};
  plan.stages[1].pool = "b";
  plan.stages[1].layer_count = 22;
  AnalyticModel model(problem.View());
  const Estimate estimate = model.Full(plan);
  Seconds time(0);
  for (const Seconds part : estimate.breakdown) time += part;
  EXPECT_NEAR(time / estimate.step_time, 1, 1e-9);
  EXPECT_EQ(model.Quick(plan).step_time, estimate.step_time);
  EXPECT_EQ(estimate.stage_memory.size(), 2);
  problem.cluster.inter_pool.bandwidth_per_node = {1e9};
  EXPECT_GT(FullOf(problem, plan).step_time, estimate.step_time);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

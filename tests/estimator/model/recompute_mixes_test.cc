#include "estimator/model/recompute_mixes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr int kStages = 4;
constexpr int kLayers = 20;  // layers of a stage: Llama-2-70B has 80

// Stages of 20 layers, the first of which holds four micro-batches and the last one.
ParallelPlan Plan(int virtual_pipeline = 1) {
  return {.tensor_parallel = 8,
          .sequence_parallel = true,
          .pipeline_parallel = kStages,
          .virtual_pipeline = virtual_pipeline,
          .data_parallel = 4,
          .micro_batch_size = 2,
          .zero_stage = 1,
          .schedule = virtual_pipeline > 1 ? Schedule::kInterleaved1f1b : Schedule::k1f1b};
}

// A pool whose devices have room for a part of the activations.
OwnedProblem Tight(double share, const ParallelPlan& plan) {
  OwnedProblem problem =
      FrameworkProblem(Llama2_70b(), "nvidia-a100-sxm4-80gb", 16, "megatron-core");
  ParallelPlan full = plan;
  full.recompute.granularity = RecomputeGranularity::kFull;
  AnalyticModel model(problem.View());
  const Bytes least = model.CheckMemory(full).reserved_memory;
  const Bytes most = model.CheckMemory(plan).reserved_memory;
  problem.cluster.pools.front().memory_capacity = least + Scale(most - least, share);
  return problem;
}

ParallelPlan With(ParallelPlan plan, const std::vector<RecomputeMix>& mixes) {
  plan.recompute = {.granularity = RecomputeGranularity::kFull};
  for (const RecomputeMix& mix : mixes) {
    plan.recompute.layer_counts.push_back(mix.full);
    plan.recompute.selective_layer_counts.push_back(mix.selective);
  }
  return plan;
}

ParallelPlan With(ParallelPlan plan, const std::vector<int>& full) {
  plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = full};
  return plan;
}

// (virtual stages, share of the room)
class RecomputeMixesTest : public testing::TestWithParam<std::tuple<int, double>> {
 protected:
  const ParallelPlan plan_ = Plan(std::get<0>(GetParam()));
  const OwnedProblem problem_ = Tight(std::get<1>(GetParam()), plan_);
  AnalyticModel model_ = AnalyticModel(problem_.View());
};

TEST_P(RecomputeMixesTest, LeastFullFitsAndOneChunkLessDoesNot) {
  const auto counts = RecomputeMixes(model_, plan_).LeastFull(kLayers);
  ASSERT_TRUE(counts.has_value());
  EXPECT_TRUE(model_.CheckMemory(With(plan_, *counts)).fits);
  EXPECT_GT(counts->front(), 0);
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    std::vector<int> less = *counts;
    if (less[stage] == 0) continue;
    less[stage] -= plan_.virtual_pipeline;
    EXPECT_FALSE(model_.CheckMemory(With(plan_, less)).fits) << stage;
  }
}

TEST_P(RecomputeMixesTest, NoneFitsWhereAllLayersAreTooFew) {
  RecomputeMixes mixes(model_, plan_);
  const int needed = mixes.LeastFull(kLayers)->front();
  EXPECT_FALSE(mixes.LeastFull(needed - plan_.virtual_pipeline).has_value());
}

// The fastest is one that fits, and takes as long as the first of all that fit.
TEST_P(RecomputeMixesTest, FastestIsTheFirstThatFits) {
  RecomputeMixes mixes(model_, plan_);
  const auto fastest = mixes.Fastest();
  ASSERT_TRUE(fastest.has_value());
  std::vector<RecomputeMix> first;
  for (const std::vector<RecomputeMix>& fitting : mixes.Fitting(true)) {
    ASSERT_FALSE(fitting.empty());
    first.push_back(fitting.front());
  }
  const QuickEstimate estimate = model_.Quick(With(plan_, *fastest));
  EXPECT_TRUE(estimate.fits);
  EXPECT_EQ(estimate.step_time, model_.Quick(With(plan_, first)).step_time);
  const std::vector<int> least_full = *mixes.LeastFull(kLayers);
  EXPECT_LE(estimate.step_time, model_.Quick(With(plan_, least_full)).step_time);
}

TEST_P(RecomputeMixesTest, FittingWithoutSelectiveLayersHasOnlyFullOnes) {
  RecomputeMixes mixes(model_, plan_);
  const std::vector<int> least = *mixes.LeastFull(kLayers);
  const auto fitting = mixes.Fitting(false);
  ASSERT_EQ(fitting.size(), kStages);
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    ASSERT_FALSE(fitting[stage].empty());
    EXPECT_EQ(fitting[stage].front(), RecomputeMix{.full = least[stage]});
    for (const RecomputeMix& mix : fitting[stage]) EXPECT_EQ(mix.selective, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, RecomputeMixesTest,
                         testing::Combine(testing::Values(1, 2), testing::Values(0.2, 0.6)));

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

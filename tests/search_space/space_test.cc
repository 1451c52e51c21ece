#include "search_space/space/space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;

// A model with only the facts that the space uses: layers and experts.
ModelSpec Dense(int layers) { return {.name = "dense", .layer_count = layers}; }

ModelSpec Experts(int layers, int experts) {
  ModelSpec model = Dense(layers);
  model.moe = MoeSpec{.expert_count = experts, .experts_per_token = 1};
  return model;
}

struct Case {
  std::string name;
  ModelSpec model;
  int devices = 1;
  int batch = 1;
  SpaceOptions options = {};
};

SpaceOptions Everything() {
  SpaceOptions options = {.fabric_devices = 2,
                          .sizes_end_stages = true,
                          .shards_in_groups = true,
                          .whole_weights_percents = {0, 40, 100},
                          .offload_percents = {0, 50},
                          .activation_offload_percents = {0, 25, 100}};
  options.rank_orders = {RankOrder::kTpCpEpDpPp, RankOrder::kTpCpEpPpDp};
  options.schedules.clear();
  for (const auto& [schedule, word] : Choices<Schedule>()) options.schedules.push_back(schedule);
  options.context_parallel_kinds.clear();
  for (const auto& [kind, word] : Choices<ContextParallelKind>()) {
    options.context_parallel_kinds.push_back(kind);
  }
  return options;
}

SpaceOptions EverythingWithoutOffloadInPipelines() {
  SpaceOptions options = Everything();
  options.activation_offload_needs_one_stage = true;
  return options;
}

// Options in which the user restricts every dimension.
SpaceOptions Chosen() {
  SpaceOptions options = Everything();
  options.chosen[Dimension::kTensorParallel] = {.values = {1, 2}};
  options.chosen[Dimension::kPipelineParallel] = {.at_least = 2, .at_most = 4};
  options.chosen[Dimension::kSchedule] = {.values = {static_cast<int>(Schedule::kZbV)}};
  options.chosen[Dimension::kRecompute] = {
      .values = {static_cast<int>(RecomputeGranularity::kFull)}};
  options.recomputed_layers = {.at_least = 2};
  options.data_parallel = {.values = {1, 2}};
  return options;
}

const Case kCases[] = {
    {"OneDevice", Dense(2), 1, 1},
    {"DenseOn2", Dense(2), 2, 2},
    {"DenseOn8", Dense(4), 8, 16},
    {"DenseOn6", Dense(6), 6, 12},
    {"DenseOn12LayersDoNotDivide", Dense(5), 12, 24},
    {"BatchSmallerThanDevices", Dense(3), 12, 4},
    {"PrimeDevices", Dense(3), 7, 14},
    {"ExpertsOn6", Experts(2, 6), 6, 6},
    {"ExpertsOn12", Experts(3, 4), 12, 12},
    {"ExpertsOn8", Experts(2, 8), 8, 8},
    {"EverythingOn4", Dense(6), 4, 4, Everything()},
    {"EverythingOn6", Dense(7), 6, 6, Everything()},
    {"UnevenChunksOn4", Dense(12), 4, 4, {.sizes_end_stages = true}},
    {"UnevenChunksOn6", Dense(18), 6, 6, {.sizes_end_stages = true}},
    {"EverythingOn8", Experts(4, 2), 8, 8, Everything()},
    {"OneStageOffloadsOn4", Dense(6), 4, 4, EverythingWithoutOffloadInPipelines()},
    {"ChosenOn8", Dense(8), 8, 16, Chosen()},
};

SearchSpace SpaceOf(const Case& c) { return SearchSpace(c.model, c.devices, c.batch, c.options); }

// A visited node: the values of its dimensions that are set.
using Node = std::vector<int>;

Node NodeOf(const PlanWalk& walk) {
  const ParallelPlan& plan = walk.plan();
  const RecomputePlan& recompute = plan.recompute;
  const std::vector<int>& layers = plan.layers_per_stage;
  Node node = {plan.tensor_parallel,
               plan.context_parallel,
               static_cast<int>(plan.context_parallel_kind),
               plan.pipeline_parallel,
               plan.sequence_parallel ? 1 : 0,
               plan.micro_batch_size,
               plan.expert_parallel,
               plan.expert_tensor_parallel,
               static_cast<int>(plan.rank_order),
               static_cast<int>(plan.schedule),
               plan.virtual_pipeline,
               layers.empty() ? 0 : *std::max_element(layers.begin(), layers.end()),
               layers.empty() ? 0 : layers.front(),
               plan.zero_stage,
               plan.zero_group_size,
               static_cast<int>(100 * plan.whole_weights_ratio),
               static_cast<int>(100 * plan.optimizer_offload_ratio),
               static_cast<int>(100 * plan.activation_offload_ratio),
               recompute.layer_counts.empty() ? static_cast<int>(recompute.granularity)
                                              : 1 + recompute.layer_counts.front()};
  node.resize(static_cast<std::size_t>(walk.depth()));
  return node;
}

std::vector<Node> NodesOf(const SearchSpace& space) {
  std::vector<Node> nodes;
  for (PlanWalk walk(space); walk.Next();) nodes.push_back(NodeOf(walk));
  return nodes;
}

class SpaceTest : public testing::TestWithParam<Case> {};

TEST_P(SpaceTest, CountIsTheNumberOfPlansOfAWalk) {
  const SearchSpace space = SpaceOf(GetParam());
  std::int64_t plans = 0;
  for (PlanWalk walk(space); walk.Next();) plans += walk.is_plan() ? 1 : 0;
  EXPECT_EQ(space.Count(), plans);
}

TEST_P(SpaceTest, CountBelowIsTheNumberOfPlansBelowEveryNode) {
  const SearchSpace space = SpaceOf(GetParam());
  // The open subtrees, outermost first, with the expected plans below each and the plans before it.
  struct Open {
    std::int64_t expected = 0;
    std::int64_t plans_before = 0;
    int depth = 0;
    ParallelPlan plan = {};
  };
  std::vector<Open> open;
  std::int64_t plans = 0;
  const auto close_from = [&](int depth) {
    while (!open.empty() && open.back().depth >= depth) {
      EXPECT_EQ(plans - open.back().plans_before, open.back().expected)
          << "depth " << open.back().depth << " of " << MakePlanKey(open.back().plan).text;
      open.pop_back();
    }
  };
  for (PlanWalk walk(space); walk.Next();) {
    close_from(walk.depth());
    open.push_back({.expected = space.CountBelow(walk.plan(), walk.depth()),
                    .plans_before = plans,
                    .depth = walk.depth(),
                    .plan = walk.plan()});
    plans += walk.is_plan() ? 1 : 0;
  }
  close_from(0);
  EXPECT_EQ(space.CountBelow(space.Root(), 0), plans);
}

TEST_P(SpaceTest, EveryPlanStandsOnceAndUsesTheDevices) {
  const Case& c = GetParam();
  const SearchSpace space = SpaceOf(c);
  std::set<std::string> keys;
  for (PlanWalk walk(space); walk.Next();) {
    if (!walk.is_plan()) continue;
    const ParallelPlan& plan = walk.plan();
    const std::string key = MakePlanKey(plan).text;
    EXPECT_TRUE(keys.insert(key).second) << key << " stands twice";
    EXPECT_EQ(
        plan.tensor_parallel * plan.context_parallel * plan.pipeline_parallel * plan.data_parallel,
        c.devices)
        << key;
    EXPECT_EQ(c.batch % (plan.data_parallel * plan.micro_batch_size), 0) << key;
    EXPECT_EQ(plan.schedule == Schedule::kInterleaved1f1b, plan.virtual_pipeline > 1) << key;
    const int group = plan.tensor_parallel * plan.context_parallel * plan.data_parallel;
    EXPECT_EQ(group % (plan.expert_parallel * plan.expert_tensor_parallel), 0) << key;
    const bool is_full = plan.recompute.granularity == RecomputeGranularity::kFull;
    EXPECT_EQ(plan.recompute.layer_counts.size(),
              is_full ? static_cast<std::size_t>(plan.pipeline_parallel) : 0U)
        << key;
  }
}

INSTANTIATE_TEST_SUITE_P(All, SpaceTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

// Twelve devices are in nodes of four, with four stages. With tensor x context of 4 each block is a
// node, and the order changes nothing. Nor does it with one stage, one data-parallel rank, or one
// node.
TEST(SearchSpaceTest, RankOrdersByHand) {
  SpaceOptions options = {.fabric_devices = 4};
  options.rank_orders = {RankOrder::kTpCpEpPpDp, RankOrder::kTpCpEpDpPp};
  struct Row {
    int tensor = 1;
    int stages = 1;
    bool differ = true;
  };
  const auto values = [](const SearchSpace& space, const Row& row) {
    ParallelPlan plan = space.Root();
    space.Set(Dimension::kTensorParallel, row.tensor, plan);
    space.Set(Dimension::kPipelineParallel, row.stages, plan);
    return space.Values(Dimension::kRankOrder, plan);
  };
  const SearchSpace space(Dense(12), 12, 12, options);
  for (const Row& row : {Row{1, 4, true}, Row{2, 3, true}, Row{4, 3, false}, Row{1, 12, false},
                         Row{2, 1, false}, Row{6, 2, false}, Row{3, 2, true}}) {
    EXPECT_EQ(values(space, row).size(), row.differ ? 2U : 1U) << row.tensor << " " << row.stages;
    EXPECT_EQ(values(space, row).front(), 0);
  }
  EXPECT_THAT(values(SearchSpace(Dense(4), 4, 4, options), {1, 2}), ElementsAre(0));
  // If only this order is requested, the space has it wherever it matters.
  options.rank_orders = {RankOrder::kTpCpEpPpDp};
  options.chosen[Dimension::kRankOrder] = {.values = {1}};
  const SearchSpace chosen(Dense(12), 12, 12, options);
  EXPECT_THAT(values(chosen, {1, 4}), ElementsAre(1));
  EXPECT_THAT(values(chosen, {4, 3}), ElementsAre(0));
}

// Skipping a node omits exactly the deeper nodes that directly follow it.
TEST(PlanWalkTest, SkipLeavesOutTheSubtreeAndNothingElse) {
  for (const Case& c : {Case{"", Dense(2), 2, 2}, Case{"", Experts(2, 2), 2, 1}}) {
    const SearchSpace space = SpaceOf(c);
    const std::vector<Node> all = NodesOf(space);
    for (std::size_t skipped = 0; skipped < all.size(); ++skipped) {
      std::size_t end = skipped + 1;
      while (end < all.size() && all[end].size() > all[skipped].size()) ++end;
      std::vector<Node> expected = all;
      const auto at = [&](std::size_t i) {
        return expected.begin() + static_cast<std::ptrdiff_t>(i);
      };
      expected.erase(at(skipped + 1), at(end));

      std::vector<Node> visited;
      for (PlanWalk walk(space); walk.Next();) {
        visited.push_back(NodeOf(walk));
        if (visited.size() == skipped + 1) walk.Skip();
      }
      ASSERT_EQ(visited, expected) << "skipped node " << skipped;
    }
  }
}

TEST(PlanWalkTest, StaysAtItsEnd) {
  const SearchSpace space(Dense(1), 1, 1, {});
  PlanWalk walk(space);
  while (walk.Next()) {
  }
  EXPECT_FALSE(walk.Next());
}

// tp2: sp 2 x micro-batch {1,2} 2 x ZeRO 4 x recompute {none, selective, 1, 2 layers} 4 =  64
// cp2: the same                                                                          =  64
// pp2: sp 2 x micro-batch {1,2} 2 x ZeRO 4 x recompute {none, selective, 1 layer} 3      =  48
// dp2: sp 2 x micro-batch {1}   1 x ZeRO 4 x recompute 4                                 =  32
TEST(SearchSpaceTest, CountByHandDense) {
  const SearchSpace space(Dense(2), 2, 2, {});
  EXPECT_EQ(space.Count(), 64 + 64 + 48 + 32);
  ParallelPlan prefix = space.Root();
  space.Set(Dimension::kTensorParallel, 2, prefix);
  EXPECT_EQ(space.CountBelow(prefix, 1), 64);
}

// One device runs one sequence: sp 2 x ZeRO 4 x recompute {none, selective, 1 .. 61 layers} 63.
TEST(SearchSpaceTest, CountByHandOneDevice) {
  EXPECT_EQ(SearchSpace(DeepseekV3(), 1, 1, {}).Count(), 2 * 4 * 63);
}

TEST(SearchSpaceTest, ValuesOfADimensionByHand) {
  const SearchSpace space(Experts(12, 8), 12, 24,
                          {.context_parallel_kinds = {ContextParallelKind::kUlysses}});
  ParallelPlan plan = space.Root();
  EXPECT_EQ(plan.context_parallel_kind, ContextParallelKind::kUlysses);
  EXPECT_EQ(plan.data_parallel, 12);
  EXPECT_THAT(space.Values(Dimension::kTensorParallel, plan), ElementsAre(1, 2, 3, 4, 6, 12));
  space.Set(Dimension::kTensorParallel, 2, plan);
  EXPECT_THAT(space.Values(Dimension::kContextParallel, plan), ElementsAre(1, 2, 3, 6));
  space.Set(Dimension::kContextParallel, 1, plan);
  EXPECT_THAT(space.Values(Dimension::kPipelineParallel, plan), ElementsAre(1, 2, 3, 6));
  space.Set(Dimension::kPipelineParallel, 3, plan);
  EXPECT_EQ(plan.data_parallel, 2);
  // A stage has 12 / 3 = 4 devices. Three of the divisors 1, 2, 4, 8 of the experts divide that.
  EXPECT_THAT(space.Values(Dimension::kExpertParallel, plan), ElementsAre(1, 2, 4));
  space.Set(Dimension::kExpertParallel, 2, plan);
  EXPECT_THAT(space.Values(Dimension::kExpertTensorParallel, plan), ElementsAre(1, 2));
  // There are 24 sequences for 2 data ranks, so micro-batches are the divisors of 12.
  EXPECT_THAT(space.Values(Dimension::kMicroBatchSize, plan), ElementsAre(1, 2, 3, 4, 6, 12));
  // There are 4 layers per stage, in 2 or 4 chunks. Two chunks recompute 2 or 4 layers (codes 1 +
  // layers).
  EXPECT_THAT(space.Values(Dimension::kVirtualPipeline, plan), ElementsAre(1));
  space.Set(Dimension::kSchedule, static_cast<int>(Schedule::kInterleaved1f1b), plan);
  EXPECT_THAT(space.Values(Dimension::kVirtualPipeline, plan), ElementsAre(2, 4));
  space.Set(Dimension::kVirtualPipeline, 2, plan);
  EXPECT_THAT(space.Values(Dimension::kRecompute, plan), ElementsAre(0, 1, 3, 5));
  space.Set(Dimension::kRecompute, 5, plan);
  EXPECT_THAT(plan.recompute.layer_counts, ElementsAre(4, 4, 4));
}

// 10 layers are on 4 stages, of which two are between the ends. 3 layers each leave 4 to the ends,
// 1 to 3 of them for the first; 4 each leave 2, one for each end. 3, 3, 2, 2 is the framework's own
// split, which is 0 here.
TEST(SearchSpaceTest, EndStagesByHand) {
  const SearchSpace space(Dense(10), 4, 4, {.sizes_end_stages = true});
  ParallelPlan plan = space.Root();
  space.Set(Dimension::kPipelineParallel, 4, plan);
  EXPECT_THAT(space.Values(Dimension::kLargestStage, plan), ElementsAre(0, 3, 4));
  space.Set(Dimension::kLargestStage, 3, plan);
  EXPECT_THAT(space.Values(Dimension::kFirstStage, plan), ElementsAre(1, 2, 3));
  space.Set(Dimension::kFirstStage, 1, plan);
  EXPECT_THAT(plan.layers_per_stage, ElementsAre(1, 3, 3, 3));
  space.Set(Dimension::kFirstStage, 3, plan);
  EXPECT_THAT(plan.layers_per_stage, ElementsAre(3, 3, 3, 1));
  space.Set(Dimension::kLargestStage, 4, plan);
  EXPECT_THAT(space.Values(Dimension::kFirstStage, plan), ElementsAre(1));
}

// With 8 layers on 2 stages, the larger stage has 5 to 7, at either end; 4 each is the framework's
// own split.
TEST(SearchSpaceTest, TwoStagesByHand) {
  const SearchSpace space(Dense(8), 2, 2, {.sizes_end_stages = true});
  ParallelPlan plan = space.Root();
  space.Set(Dimension::kPipelineParallel, 2, plan);
  EXPECT_THAT(space.Values(Dimension::kLargestStage, plan), ElementsAre(0, 5, 6, 7));
  space.Set(Dimension::kLargestStage, 6, plan);
  EXPECT_THAT(space.Values(Dimension::kFirstStage, plan), ElementsAre(2, 6));
  space.Set(Dimension::kFirstStage, 2, plan);
  EXPECT_THAT(plan.layers_per_stage, ElementsAre(2, 6));
}

// 12 layers are in chunks of equal size. Two chunks are six shares of 2 layers, which four stages
// have as 1, 2, 2, 1. Three chunks leave one share to each stage, and four are too many. Two stages
// have the six shares as 3 + 3, 4 + 2 or 5 + 1, and the three shares of four chunks only as 2 + 1.
TEST(SearchSpaceTest, UnevenChunksByHand) {
  const SearchSpace space(Dense(12), 4, 4, {.sizes_end_stages = true});
  const auto interleaved = [&](int stages, int chunks) {
    ParallelPlan plan = space.Root();
    space.Set(Dimension::kPipelineParallel, stages, plan);
    space.Set(Dimension::kSchedule, static_cast<int>(Schedule::kInterleaved1f1b), plan);
    if (chunks > 1) space.Set(Dimension::kVirtualPipeline, chunks, plan);
    return plan;
  };
  ParallelPlan plan = interleaved(4, 1);
  EXPECT_THAT(space.Values(Dimension::kVirtualPipeline, plan), ElementsAre(2, 3));
  plan = interleaved(4, 3);
  EXPECT_THAT(space.Values(Dimension::kLargestStage, plan), ElementsAre(0));
  plan = interleaved(4, 2);
  EXPECT_THAT(space.Values(Dimension::kLargestStage, plan), ElementsAre(4));
  space.Set(Dimension::kLargestStage, 4, plan);
  EXPECT_THAT(space.Values(Dimension::kFirstStage, plan), ElementsAre(2));
  space.Set(Dimension::kFirstStage, 2, plan);
  EXPECT_THAT(plan.layers_per_stage, ElementsAre(2, 4, 4, 2));
  // All chunks of a stage recompute the same number of layers: 2 or 4 in total (codes 1 + layers).
  EXPECT_THAT(space.Values(Dimension::kRecompute, plan), ElementsAre(0, 1, 3, 5));

  EXPECT_THAT(space.Values(Dimension::kVirtualPipeline, interleaved(2, 1)),
              ElementsAre(2, 3, 4, 6));
  EXPECT_THAT(space.Values(Dimension::kLargestStage, interleaved(2, 2)), ElementsAre(0, 8, 10));
  plan = interleaved(2, 4);
  EXPECT_THAT(space.Values(Dimension::kLargestStage, plan), ElementsAre(8));
  space.Set(Dimension::kLargestStage, 8, plan);
  EXPECT_THAT(space.Values(Dimension::kFirstStage, plan), ElementsAre(4, 8));
}

// Five shares of 2 layers on four stages would be 2 and 2, with nothing for the ends.
TEST(SearchSpaceTest, ChunksThatNoSplitHas) {
  for (const bool sizes_end_stages : {false, true}) {
    const SearchSpace space(Dense(10), 4, 4, {.sizes_end_stages = sizes_end_stages});
    ParallelPlan plan = space.Root();
    space.Set(Dimension::kPipelineParallel, 4, plan);
    EXPECT_THAT(space.Values(Dimension::kSchedule, plan),
                ElementsAre(static_cast<int>(Schedule::k1f1b)));
    // 5 layers on each of two stages are five chunks; only uneven stages can have two chunks: 6 +
    // 4.
    space.Set(Dimension::kPipelineParallel, 2, plan);
    space.Set(Dimension::kSchedule, static_cast<int>(Schedule::kInterleaved1f1b), plan);
    const std::vector<int> chunks = space.Values(Dimension::kVirtualPipeline, plan);
    EXPECT_EQ(chunks, sizes_end_stages ? std::vector<int>({2, 5}) : std::vector<int>({5}));
  }
}

// For 12 data-parallel ranks there are the whole group and the proper divisors; without ZeRO there
// is nothing to shard.
TEST(SearchSpaceTest, ShardingGroupsByHand) {
  const SearchSpace space(Dense(2), 12, 12, {.shards_in_groups = true});
  ParallelPlan plan = space.Root();
  EXPECT_THAT(space.Values(Dimension::kZeroGroupSize, plan), ElementsAre(0));
  space.Set(Dimension::kZeroStage, 1, plan);
  EXPECT_THAT(space.Values(Dimension::kZeroGroupSize, plan), ElementsAre(0, 2, 3, 4, 6));
}

// Activations on the host exclude recomputation and, if the framework says so, a pipeline. There
// are two devices, 4 layers and two sequences. Recomputation is none, selective, or 1 .. 4 layers,
// and with offload none: 7 choices.
// tp2, cp2: sp 2 x micro-batch {1,2} 2 x ZeRO 4 x 7 = 112 each
// pp2:      sp 2 x micro-batch {1,2} 2 x ZeRO 4 x (1f1b 4 + interleaved by 2 chunks 3) = 112
// dp2:      sp 2 x micro-batch {1}   1 x ZeRO 4 x 7 =  56
TEST(SearchSpaceTest, ActivationOffloadByHand) {
  const SearchSpace space(
      Dense(4), 2, 2,
      {.activation_offload_percents = {0, 50}, .activation_offload_needs_one_stage = true});
  EXPECT_EQ(space.Count(), 112 + 112 + 112 + 56);
  ParallelPlan plan = space.Root();
  EXPECT_THAT(space.Values(Dimension::kActivationOffload, plan), ElementsAre(0, 50));
  EXPECT_EQ(space.MostOffloadedBelow(plan).activations, 0.5);
  space.Set(Dimension::kActivationOffload, 50, plan);
  EXPECT_EQ(plan.activation_offload_ratio, 0.5);
  EXPECT_THAT(space.Values(Dimension::kRecompute, plan), ElementsAre(0));
  space.Set(Dimension::kPipelineParallel, 2, plan);
  EXPECT_EQ(plan.activation_offload_ratio, 0);
  EXPECT_THAT(space.Values(Dimension::kActivationOffload, plan), ElementsAre(0));
  EXPECT_EQ(space.MostOffloadedBelow(plan).activations, 0);
}

// Only ZeRO 3 keeps weights whole: 3 + 3 choices instead of ZeRO's 4. There are two devices, 4
// layers and two sequences. Recomputation is none, selective, or 1 .. 4 layers: 6 choices.
// tp2, cp2: sp 2 x micro-batch {1,2} 2 x 6 x 6 = 144 each
// pp2:      sp 2 x micro-batch {1,2} 2 x 6 x (1f1b 4 + interleaved by 2 chunks 3) = 168
// dp2:      sp 2 x micro-batch {1}   1 x 6 x 6 =  72
TEST(SearchSpaceTest, WholeWeightsByHand) {
  SpaceOptions options = {.whole_weights_percents = {0, 50, 100}};
  const SearchSpace space(Dense(4), 2, 2, options);
  EXPECT_EQ(space.Count(), 144 + 144 + 168 + 72);
  ParallelPlan plan = space.Root();
  space.Set(Dimension::kZeroStage, 2, plan);
  EXPECT_THAT(space.Values(Dimension::kWholeWeights, plan), ElementsAre(0));
  space.Set(Dimension::kZeroStage, 3, plan);
  EXPECT_THAT(space.Values(Dimension::kWholeWeights, plan), ElementsAre(0, 50, 100));
  space.Set(Dimension::kWholeWeights, 50, plan);
  EXPECT_EQ(plan.whole_weights_ratio, 0.5);
  space.Set(Dimension::kZeroGroupSize, 0, plan);
  EXPECT_EQ(plan.whole_weights_ratio, 0);
  // A user who excludes 0 leaves only ZeRO 3, which is 2 of the 6 choices.
  options.chosen[Dimension::kWholeWeights] = {.values = {50, 100}};
  EXPECT_EQ(SearchSpace(Dense(4), 2, 2, options).Count(), (144 + 144 + 168 + 72) / 3);
}

TEST(SearchSpaceTest, ChoicesOfTheUser) {
  const SearchSpace space(Dense(8), 8, 16, Chosen());
  int plans = 0;
  for (PlanWalk walk(space); walk.Next();) {
    if (!walk.is_plan()) continue;
    const ParallelPlan& plan = walk.plan();
    ++plans;
    EXPECT_LE(plan.tensor_parallel, 2);
    EXPECT_GE(plan.pipeline_parallel, 2);
    EXPECT_LE(plan.pipeline_parallel, 4);
    EXPECT_LE(plan.data_parallel, 2);
    EXPECT_EQ(plan.schedule, Schedule::kZbV);
    EXPECT_GE(plan.recompute.layer_counts.front(), 2);
  }
  EXPECT_GT(plans, 0);
}

// Users request the framework's split and the whole group by their own numbers.
TEST(SearchSpaceTest, ChoicesThatAreDefaults) {
  SpaceOptions options = {
      .sizes_end_stages = true, .shards_in_groups = true, .offload_percents = {0, 50}};
  options.chosen[Dimension::kLargestStage] = {.values = {4}};
  options.chosen[Dimension::kZeroGroupSize] = {.values = {4}};
  const SearchSpace space(Dense(8), 8, 8, options);
  ParallelPlan plan = space.Root();
  space.Set(Dimension::kPipelineParallel, 2, plan);
  EXPECT_THAT(space.Values(Dimension::kLargestStage, plan), ElementsAre(0));
  EXPECT_THAT(space.Values(Dimension::kZeroGroupSize, plan), ElementsAre());  // nothing to shard
  space.Set(Dimension::kZeroStage, 1, plan);
  EXPECT_THAT(space.Values(Dimension::kZeroGroupSize, plan), ElementsAre(0));
}

TEST(DivisorsTest, Ascending) {
  EXPECT_THAT(Divisors(1), ElementsAre(1));
  EXPECT_THAT(Divisors(7), ElementsAre(1, 7));
  EXPECT_THAT(Divisors(36), ElementsAre(1, 2, 3, 4, 6, 9, 12, 18, 36));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

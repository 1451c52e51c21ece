#include "search_space/space.h"

#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace {

using testing::ElementsAre;

// Only what the space looks at: layers and experts.
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
};

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
};

SearchSpace SpaceOf(const Case& c) {
  return SearchSpace(c.model, c.devices, c.batch, ContextParallelKind::kRing);
}

// A visited node: the values of the dimensions that are set there.
using Node = std::vector<int>;

Node NodeOf(const PlanWalk& walk) {
  const ParallelPlan& plan = walk.plan();
  const RecomputePlan& recompute = plan.recompute;
  Node node = {plan.tensor_parallel,
               plan.context_parallel,
               plan.pipeline_parallel,
               plan.expert_parallel,
               plan.expert_tensor_parallel,
               plan.sequence_parallel ? 1 : 0,
               plan.micro_batch_size,
               plan.virtual_pipeline,
               plan.zero_stage,
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
  // The open subtrees, outermost first: what is expected below, and the plans before it.
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

// Skipping a node leaves out the nodes right behind it that are deeper, and no other.
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
  const SearchSpace space(Dense(1), 1, 1, ContextParallelKind::kRing);
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
  const SearchSpace space(Dense(2), 2, 2, ContextParallelKind::kRing);
  EXPECT_EQ(space.Count(), 64 + 64 + 48 + 32);
  ParallelPlan prefix = space.Root();
  space.Set(Dimension::kTensorParallel, 2, prefix);
  EXPECT_EQ(space.CountBelow(prefix, 1), 64);
}

// One device for one sequence: sp 2 x ZeRO 4 x recompute {none, selective, 1 .. 61 layers} 63.
TEST(SearchSpaceTest, CountByHandOneDevice) {
  EXPECT_EQ(SearchSpace(DeepseekV3(), 1, 1, ContextParallelKind::kRing).Count(), 2 * 4 * 63);
}

TEST(SearchSpaceTest, ValuesOfADimensionByHand) {
  const SearchSpace space(Experts(12, 8), 12, 24, ContextParallelKind::kUlysses);
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
  // A stage has 12 / 3 = 4 devices; of the divisors 1, 2, 4, 8 of the experts three divide that.
  EXPECT_THAT(space.Values(Dimension::kExpertParallel, plan), ElementsAre(1, 2, 4));
  space.Set(Dimension::kExpertParallel, 2, plan);
  EXPECT_THAT(space.Values(Dimension::kExpertTensorParallel, plan), ElementsAre(1, 2));
  // 24 sequences over 2 data ranks: micro-batches of the divisors of 12.
  EXPECT_THAT(space.Values(Dimension::kMicroBatchSize, plan), ElementsAre(1, 2, 3, 4, 6, 12));
  // 4 layers a stage: 1, 2 or 4 chunks; two chunks recompute 2 or 4 of them (codes 1 + layers).
  EXPECT_THAT(space.Values(Dimension::kVirtualPipeline, plan), ElementsAre(1, 2, 4));
  space.Set(Dimension::kVirtualPipeline, 2, plan);
  EXPECT_EQ(plan.schedule, Schedule::kInterleaved1f1b);
  EXPECT_THAT(space.Values(Dimension::kRecompute, plan), ElementsAre(0, 1, 3, 5));
  space.Set(Dimension::kRecompute, 5, plan);
  EXPECT_THAT(plan.recompute.layer_counts, ElementsAre(4, 4, 4));
}

TEST(DivisorsTest, Ascending) {
  EXPECT_THAT(Divisors(1), ElementsAre(1));
  EXPECT_THAT(Divisors(7), ElementsAre(1, 7));
  EXPECT_THAT(Divisors(36), ElementsAre(1, 2, 3, 4, 6, 9, 12, 18, 36));
}

}  // namespace
}  // namespace meshwright

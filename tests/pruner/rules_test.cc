#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "pruner/pruner.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/problem.h"
#include "tests/pruner/open_problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// The first rejection on the way down to the plan; `at` is the dimension that was just set.
struct Found {
  Rejection rejection = {};
  Dimension at = Dimension::kTensorParallel;
};

std::optional<Found> FirstRejection(std::string_view rule, const Problem& problem,
                                    const ParallelPlan& plan) {
  const EstimatorProblem view = ToEstimatorProblem(problem);
  const SearchSpace space = SpaceOf(problem);
  for (const PruneRule& row : PruneRules()) {
    if (row.name != rule || row.on_prefix == nullptr) continue;
    for (int depth = 1; depth <= kDimensionCount; ++depth) {
      const auto rejection = row.on_prefix({.problem = view, .space = space}, plan, depth);
      if (rejection.has_value()) return Found{*rejection, static_cast<Dimension>(depth - 1)};
    }
  }
  return std::nullopt;
}

struct Expected {
  Dimension at = Dimension::kTensorParallel;
  std::string reason = {};  // a part of the reason
  double value = 0;
  double limit = 0;
};

struct Case {
  std::string name;
  std::string rule;
  // Changes the problem, which is two nodes of eight A100 with a batch of 16.
  std::function<void(Problem&)> change;
  ParallelPlan plan = {};
  std::optional<Expected> expected = {};  // nullopt: the rule accepts it
};

void Nothing(Problem& /*problem*/) {}
void Ulysses(Problem& problem) {
  problem.profile.context_parallel_kinds = {ContextParallelKind::kUlysses};
}
void UlyssesOfFourKeyValueHeads(Problem& problem) {
  Ulysses(problem);
  problem.model.kv_head_count = 4;
}
void WithoutZero0(Problem& problem) {
  problem.space.chosen[Dimension::kZeroStage] = {.values = {1, 2}};
}
void WithZero0(Problem& problem) {
  problem.space.chosen[Dimension::kZeroStage] = {.values = {0, 1}};
}
void GroupsOfTwo(Problem& problem) {
  problem.space.shards_in_groups = true;
  problem.space.chosen[Dimension::kZeroGroupSize] = {.values = {2}};
}
void FourExperts(Problem& problem) { problem.model = TinyExperts(); }
void SequenceParallelExperts(Problem& problem) {
  FourExperts(problem);
  problem.profile.experts_need_sequence_parallel = true;
}
void NodesOfSix(Problem& problem) { problem.cluster.pools.front().devices_per_node = 6; }
void SingleDeviceNodes(Problem& problem) { problem.cluster.pools.front().devices_per_node = 1; }

void ExpertsOfABlock(Problem& problem) {
  FourExperts(problem);
  problem.profile.experts_need_outer_pipeline = true;
}

// 24 heads, of which 6 are key-value heads: tensor parallelism of 3 and 12 keeps them whole.
void GroupedHeads(Problem& problem) {
  problem.model.attention_head_count = 24;
  problem.model.kv_head_count = 6;
  problem.model.ffn_hidden_size = 3072;
}

const Case kDivisibility[] = {
    {"WholeModel", "divisibility", Nothing, {.data_parallel = 16}},
    {"HeadsDivide", "divisibility", Nothing, {.tensor_parallel = 16}},
    {"HeadsDoNotDivide",
     "divisibility",
     Nothing,
     {.tensor_parallel = 3},
     Expected{Dimension::kTensorParallel, "attention heads", 3, 16}},
    {"KeyValueHeadsAreDivided", "divisibility", GroupedHeads, {.tensor_parallel = 3}},
    {"KeyValueHeadsAreCopied", "divisibility", GroupedHeads, {.tensor_parallel = 12}},
    {"KeyValueHeadsDoNotDivide",
     "divisibility",
     GroupedHeads,
     {.tensor_parallel = 4},
     Expected{Dimension::kTensorParallel, "key-value heads", 4, 6}},
    {"FeedForwardDoesNotDivide",
     "divisibility",
     [](Problem& problem) { problem.model.ffn_hidden_size = 4100; },
     {.tensor_parallel = 8},
     Expected{Dimension::kTensorParallel, "feed-forward width", 8, 4100}},
    {"TwoSlicesARank", "divisibility", Nothing, {.context_parallel = 16}},
    {"SlicesDoNotDivide",  // 3 ranks, 6 slices of 1024 tokens
     "divisibility",
     Nothing,
     {.context_parallel = 3},
     Expected{Dimension::kContextParallel, "sequence", 6, 1024}},
    {"RingNeedsNoHeads", "divisibility", Nothing, {.tensor_parallel = 8, .context_parallel = 4}},
    {"UlyssesDividesHeads",
     "divisibility",
     Ulysses,
     {.tensor_parallel = 4,
      .context_parallel = 4,
      .context_parallel_kind = ContextParallelKind::kUlysses}},
    {"UlyssesDoesNotDivideHeads",  // 16 heads / 8 = 2 heads per rank
     "divisibility",
     Ulysses,
     {.tensor_parallel = 8,
      .context_parallel = 4,
      .context_parallel_kind = ContextParallelKind::kUlysses},
     Expected{Dimension::kContextParallelKind, "heads of a tensor-parallel rank", 4, 2}},
    {"UlyssesDoesNotDivideKeyValueHeads",  // 4 key-value heads, 2 per rank
     "divisibility",
     UlyssesOfFourKeyValueHeads,
     {.tensor_parallel = 2,
      .context_parallel = 4,
      .context_parallel_kind = ContextParallelKind::kUlysses},
     Expected{Dimension::kContextParallelKind, "key-value heads of a tensor-parallel rank", 4, 2}},
    {"OneLayerAStage", "divisibility", Nothing, {.pipeline_parallel = 4}},
    {"UnevenStages", "divisibility", Nothing, {.pipeline_parallel = 3}},
    {"MoreStagesThanLayers",
     "divisibility",
     Nothing,
     {.pipeline_parallel = 8},
     Expected{Dimension::kPipelineParallel, "more stages than layers", 8, 4}},
    {"ExpertWidthDivides", "divisibility", FourExperts, {.expert_tensor_parallel = 8}},
    {"ExpertWidthDoesNotDivide",
     "divisibility",
     FourExperts,
     {.expert_tensor_parallel = 3},
     Expected{Dimension::kExpertTensorParallel, "expert width", 3, 1024}},
    {"SequenceParallel",
     "divisibility",
     Nothing,
     {.tensor_parallel = 2, .sequence_parallel = true}},
    {"SequenceParallelNeedsTensor",
     "divisibility",
     Nothing,
     {.sequence_parallel = true},
     Expected{Dimension::kSequenceParallel, "needs tensor_parallel > 1", 1, 2}},
    {"TokensDoNotDivide",
     "divisibility",
     GroupedHeads,
     {.tensor_parallel = 3, .sequence_parallel = true},
     Expected{Dimension::kSequenceParallel, "tokens of a rank", 3, 1024}},
    {"ExpertsNeedSequenceParallel",
     "framework",
     SequenceParallelExperts,
     {.tensor_parallel = 2},
     Expected{Dimension::kSequenceParallel, "need sequence parallelism"}},
    {"ExpertsWithSequenceParallel",
     "framework",
     SequenceParallelExperts,
     {.tensor_parallel = 2, .sequence_parallel = true}},
    {"ExpertsWithoutTensor", "framework", SequenceParallelExperts, {.expert_parallel = 4}},
    {"ExpertsOfAnotherFramework", "framework", FourExperts, {.tensor_parallel = 2}},
    {"PipelineInside",
     "framework",
     ExpertsOfABlock,
     {.pipeline_parallel = 4, .data_parallel = 4, .rank_order = RankOrder::kTpCpEpPpDp}},
    {"PipelineInsideOfExperts",
     "framework",
     ExpertsOfABlock,
     {.pipeline_parallel = 4,
      .data_parallel = 4,
      .expert_parallel = 2,
      .rank_order = RankOrder::kTpCpEpPpDp},
     Expected{Dimension::kRankOrder, "tensor x context"}},
    {"PipelineOutsideOfExperts",
     "framework",
     ExpertsOfABlock,
     {.pipeline_parallel = 4, .data_parallel = 4, .expert_parallel = 2}},
    {"PipelineInsideOfExpertsOfAnotherFramework",
     "framework",
     FourExperts,
     {.pipeline_parallel = 4,
      .data_parallel = 4,
      .expert_parallel = 2,
      .rank_order = RankOrder::kTpCpEpPpDp}},
    {"InterleavingDivides",  // 16 / (4 x 1) = 4 micro-batches in groups of 2
     "divisibility",
     Nothing,
     {.pipeline_parallel = 2,
      .virtual_pipeline = 2,
      .data_parallel = 4,
      .schedule = Schedule::kInterleaved1f1b}},
    {"InterleavingDoesNotDivide",  // 16 / (4 x 4) = 1 micro-batch
     "divisibility",
     Nothing,
     {.pipeline_parallel = 2,
      .virtual_pipeline = 2,
      .data_parallel = 4,
      .micro_batch_size = 4,
      .schedule = Schedule::kInterleaved1f1b},
     Expected{Dimension::kSchedule, "as interleaving needs", 2, 1}},
    {"PlainPipelineNeedsNoGroups",
     "divisibility",
     Nothing,
     {.pipeline_parallel = 2, .data_parallel = 4, .micro_batch_size = 4}},
    {"ZeroThreeWithoutPipeline", "framework", Nothing, {.data_parallel = 16, .zero_stage = 3}},
    {"ZeroOneWithPipeline",
     "framework",
     Nothing,
     {.pipeline_parallel = 2, .data_parallel = 8, .zero_stage = 1}},
    {"ZeroTwoWithPipeline",
     "framework",
     Nothing,
     {.pipeline_parallel = 2, .data_parallel = 8, .zero_stage = 2},
     Expected{Dimension::kZeroStage, "with a pipeline"}},
    {"ZeroTwoWithPipelineOfAnotherFramework",
     "framework",
     [](Problem& problem) { problem.profile.largest_zero_stage_with_pipeline = 3; },
     {.pipeline_parallel = 2, .data_parallel = 8, .zero_stage = 2}},
};

const Case kTopology[] = {
    {"WithoutTensor", "topology", SingleDeviceNodes, {.data_parallel = 2}},
    {"WholeNode", "topology", Nothing, {.tensor_parallel = 8}},
    {"HalfANode", "topology", Nothing, {.tensor_parallel = 4}},
    {"TwoNodes", "topology", Nothing, {.tensor_parallel = 16}},
    {"ThirdsOfSix", "topology", NodesOfSix, {.tensor_parallel = 3}},
    {"FourOfSix",  // the second group would have two devices on each of two nodes
     "topology",
     NodesOfSix,
     {.tensor_parallel = 4},
     Expected{Dimension::kTensorParallel, "neither divides a node", 4, 6}},
    {"NineOfSix",
     "topology",
     NodesOfSix,
     {.tensor_parallel = 9},
     Expected{Dimension::kTensorParallel, "neither divides a node", 9, 6}},
    {"SingleDevices", "topology", SingleDeviceNodes, {.tensor_parallel = 2}},
};

const Case kDominance[] = {
    {"NothingSharded", "dominance", Nothing, {}},
    {"ShardedOverData", "dominance", Nothing, {.data_parallel = 2, .zero_stage = 1}},
    {"ShardedOverContext", "dominance", Nothing, {.context_parallel = 2, .zero_stage = 1}},
    {"OneRank",
     "dominance",
     Nothing,
     {.pipeline_parallel = 4, .zero_stage = 1},
     Expected{Dimension::kOptimizerOffload, "zero_stage > 0 shards nothing", 1, 0}},
    {"OneRankOfTensor",
     "dominance",
     Nothing,
     {.tensor_parallel = 4, .zero_stage = 3},
     Expected{Dimension::kOptimizerOffload, "zero_stage > 0 shards nothing", 3, 0}},
    // The equal plan is not in the space, so none of the two would remain.
    {"OneRankWithoutZero0", "dominance", WithoutZero0, {.pipeline_parallel = 4, .zero_stage = 1}},
    {"OneRankWithZero0",
     "dominance",
     WithZero0,
     {.pipeline_parallel = 4, .zero_stage = 1},
     Expected{Dimension::kOptimizerOffload, "zero_stage > 0 shards nothing", 1, 0}},
    {"OneRankWithAGroupFixed", "dominance", GroupsOfTwo, {.pipeline_parallel = 4, .zero_stage = 1}},
    {"ExpertsOverTensorRanks",  // 4 ranks / (2 x 1): two ranks hold the same experts
     "dominance",
     FourExperts,
     {.tensor_parallel = 4, .expert_parallel = 2, .zero_stage = 1}},
    {"ExpertsOnOneRankEach",
     "dominance",
     FourExperts,
     {.tensor_parallel = 4, .expert_parallel = 2, .expert_tensor_parallel = 2, .zero_stage = 1},
     Expected{Dimension::kOptimizerOffload, "zero_stage > 0 shards nothing", 1, 0}},
};

class RulesTest : public testing::TestWithParam<Case> {};

TEST_P(RulesTest, RejectsWhatItMustAndNothingElse) {
  const Case& c = GetParam();
  Question question = TinyQuestion();
  question.cluster.pools = {Nodes(2, 8)};
  Problem problem = OpenProblem(question);
  c.change(problem);
  const std::optional<Found> found = FirstRejection(c.rule, problem, c.plan);
  ASSERT_EQ(found.has_value(), c.expected.has_value());
  if (!found.has_value()) return;
  EXPECT_EQ(found->rejection.rule, c.rule);
  EXPECT_THAT(std::string(found->rejection.reason), HasSubstr(c.expected->reason));
  EXPECT_EQ(found->rejection.value, c.expected->value);
  EXPECT_EQ(found->rejection.limit, c.expected->limit);
  EXPECT_EQ(found->at, c.expected->at);
}

const auto kName = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Divisibility, RulesTest, testing::ValuesIn(kDivisibility), kName);
INSTANTIATE_TEST_SUITE_P(Topology, RulesTest, testing::ValuesIn(kTopology), kName);
INSTANTIATE_TEST_SUITE_P(Dominance, RulesTest, testing::ValuesIn(kDominance), kName);

TEST(PruneRulesTest, OrderOfTheTable) {
  EXPECT_THAT(PruneRuleNames(), testing::ElementsAre("framework", "divisibility", "topology",
                                                     "memory", "history", "dominance", "bound"));
  for (const PruneRule& rule : PruneRules()) {
    EXPECT_FALSE(rule.what.empty()) << rule.name;
    EXPECT_TRUE(rule.on_prefix != nullptr || rule.on_plan != nullptr) << rule.name;
    // LeftByUnprovenRules only knows the plans that a prefix decides.
    EXPECT_TRUE(rule.is_proven || rule.on_plan == nullptr) << rule.name;
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

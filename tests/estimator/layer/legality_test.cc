#include "estimator/legality/legality.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "tests/estimator/problems.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::IsEmpty;

struct Case {
  std::string name;
  std::string framework;
  std::string version;
  ParallelPlan plan = {};
  std::string refused_for = {};  // a part of the rule's sentence; empty: the plan is legal
  std::function<void(OwnedProblem&)> change = [](OwnedProblem&) {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

void TwoKeyHeads(OwnedProblem& problem) { problem.model.kv_head_count = 2; }
void EightyLayers(OwnedProblem& problem) { problem.model.layer_count = 80; }
void LayersOfQwen(OwnedProblem& problem) { problem.model.layer_count = 94; }
void OverlappedSends(OwnedProblem& problem) { problem.workload.overlap.pipeline_p2p = true; }

// 16 x 2 chunks of 80 layers: 5 layers a stage.
constexpr ParallelPlan Chunked(int pipeline, int chunks) {
  return {.pipeline_parallel = pipeline,
          .virtual_pipeline = chunks,
          .zero_stage = 1,
          .schedule = Schedule::kInterleaved1f1b};
}

ParallelPlan WithLayers(ParallelPlan plan, std::vector<int> layers) {
  plan.layers_per_stage = std::move(layers);
  return plan;
}

ParallelPlan Recomputing(ParallelPlan plan, std::vector<int> counts) {
  plan.recompute = {.granularity = RecomputeGranularity::kFull, .layer_counts = std::move(counts)};
  return plan;
}

void TiedEmbeddings(OwnedProblem& problem) { problem.model.tied_embeddings = true; }

// The stage of a mixed plan on a node of eight devices.
StagePlan MixedStage(std::string pool, int tensor) {
  return {.pool = std::move(pool),
          .node_count = 1,
          .tensor_parallel = tensor,
          .data_parallel = 8 / tensor,
          .layer_count = 40,
          .micro_batch_size = tensor};
}

ParallelPlan Staged(std::vector<StagePlan> stages) {
  ParallelPlan plan = {.sequence_parallel = true};
  plan.pipeline_parallel = static_cast<int>(stages.size());
  plan.stages = std::move(stages);
  return plan;
}

ParallelPlan Changed(ParallelPlan plan, const std::function<void(ParallelPlan&)>& change) {
  change(plan);
  return plan;
}

void EightExperts(OwnedProblem& problem) { problem.model = Mixtral_8x7b(); }

void ExpertsWithBiases(OwnedProblem& problem) {
  problem.model = Mixtral_8x7b();
  problem.model.biases = LinearBiases::kAll;
}

void Sinks(OwnedProblem& problem) { problem.model.attention_sinks = true; }

ParallelPlan SplitContext(ContextParallelKind kind) {
  return {.context_parallel = 2, .context_parallel_kind = kind, .zero_stage = 1};
}

const Case kCases[] = {
    {"SplitExpertsWithBiases",
     "megatron-core",
     "0.15",
     {.tensor_parallel = 2, .sequence_parallel = true, .expert_tensor_parallel = 2},
     "experts with biases are whole",
     ExpertsWithBiases},
    {"WholeExpertsWithBiases",
     "megatron-core",
     "0.15",
     {.tensor_parallel = 2, .sequence_parallel = true},
     "",
     ExpertsWithBiases},
    {"SinksAroundARing", "megatron-core", "0.15", SplitContext(ContextParallelKind::kRing),
     "with sinks of attention, context parallelism exchanges heads", Sinks},
    {"SinksInStages", "torchtitan", "", {.pipeline_parallel = 2}, "has no pipeline", Sinks},
    {"SinksWithASplitContext", "torchtitan", "", SplitContext(ContextParallelKind::kRing),
     "has no context parallelism", Sinks},
    {"SinksWithExchangedHeads", "megatron-core", "0.15",
     SplitContext(ContextParallelKind::kUlysses), "", Sinks},
    {"StagesWithOwnTensorParallelism", "megatron-core", "",
     Staged({MixedStage("a", 4), MixedStage("b", 8)}), "all ranks have one size"},
    {"StagesWithOwnTensorParallelismInFlagScale", "flagscale", "",
     Staged({MixedStage("a", 4), MixedStage("b", 8)})},
    {"StagesWithOwnTensorParallelismAndWholeSequences", "flagscale", "",
     Changed(Staged({MixedStage("a", 4), MixedStage("b", 8)}),
             [](ParallelPlan& plan) { plan.sequence_parallel = false; }),
     "need sequence parallelism"},
    {"AStageWithoutTensorParallelism", "flagscale", "",
     Staged({MixedStage("a", 1), MixedStage("b", 8)}), "need sequence parallelism"},
    {"StagesThatRecomputeDifferently", "megatron-core", "",
     Changed(Staged({MixedStage("a", 8), MixedStage("b", 8)}),
             [](ParallelPlan& plan) {
               plan.stages.front().recompute = {.granularity = RecomputeGranularity::kFull};
             }),
     "all stages recompute alike"},
    {"StagesThatRecomputePartsOfLayers", "flagscale", "",
     Changed(Staged({MixedStage("a", 8), MixedStage("b", 8)}),
             [](ParallelPlan& plan) {
               plan.stages.front().recompute = {.granularity = RecomputeGranularity::kSelective};
             }),
     "has granularity full"},
    {"APoolInTwoStretches", "flagscale", "",
     Staged({MixedStage("a", 8), MixedStage("b", 8), MixedStage("a", 8)}), "follow one another"},
    {"StagesWithContextParallelism", "flagscale", "",
     Changed(Staged({MixedStage("a", 8), MixedStage("b", 8)}),
             [](ParallelPlan& plan) { plan.stages.front().context_parallel = 2; }),
     "no context parallelism"},
    {"StagesWithChunks", "flagscale", "",
     Changed(Staged({MixedStage("a", 8), MixedStage("b", 8)}),
             [](ParallelPlan& plan) { plan.virtual_pipeline = 2; }),
     "no virtual stages"},
    {"TiedStagesWhoseDataParallelismDoesNotDivide", "flagscale", "",
     Changed(Staged({MixedStage("a", 8), MixedStage("b", 8)}),
             [](ParallelPlan& plan) {
               plan.zero_stage = 1;
               plan.stages.front().data_parallel = 2;
               plan.stages.back().data_parallel = 3;
             }),
     "must divide one another", TiedEmbeddings},
    {"CopiedKeyHeads",
     "megatron-core",
     "0.14",
     {.tensor_parallel = 4, .zero_stage = 1},
     "divide the key-value heads",
     TwoKeyHeads},
    {"CopiedKeyHeadsOfALaterVersion",
     "megatron-core",
     "0.16.1",
     {.tensor_parallel = 4, .zero_stage = 1},
     "",
     TwoKeyHeads},
    {"CopiedKeyHeadsInTorchtitan",
     "torchtitan",
     "",
     {.tensor_parallel = 4, .sequence_parallel = true, .zero_stage = 3},
     "divide the key-value heads",
     TwoKeyHeads},
    {"FiveLayersInTwoChunks", "megatron-core", "0.12", Chunked(16, 2), "equal numbers of layers",
     EightyLayers},
    {"TenLayersInTwoChunks", "megatron-core", "0.14", Chunked(8, 2), "", EightyLayers},
    {"EmbeddingAndLossCount", "megatron-core", "0.14",
     WithLayers(Chunked(8, 4), {11, 12, 12, 12, 12, 12, 12, 11}), "", LayersOfQwen},
    {"TwoStagesWithoutOverlap", "megatron-core", "0.14", Chunked(2, 2), "overlapped sends",
     [](OwnedProblem& problem) {
       EightyLayers(problem);
       problem.workload.overlap.pipeline_p2p = false;
     }},
    {"TwoStagesWithOverlap", "megatron-core", "0.14", Chunked(2, 2), "",
     [](OwnedProblem& problem) {
       EightyLayers(problem);
       OverlappedSends(problem);
     }},
    {"ZeroThreeWithTensorsInDeepSpeed",
     "deepspeed",
     "",
     {.tensor_parallel = 2, .zero_stage = 3},
     "zero_stage 0 to 2"},
    {"ZeroThreeInDeepSpeed", "deepspeed", "", {.data_parallel = 8, .zero_stage = 3}},
    {"ZeroTwoWithPipelineInDeepSpeed",
     "deepspeed",
     "",
     {.pipeline_parallel = 2, .zero_stage = 2},
     "combined with a pipeline"},
    {"ZeroTwoWithPipelineInTorchtitan",
     "torchtitan",
     "",
     {.pipeline_parallel = 2, .data_parallel = 4, .zero_stage = 2}},
    {"ZeroOneInTorchtitan",
     "torchtitan",
     "",
     {.data_parallel = 8, .zero_stage = 1},
     "sharded with the optimizer states"},
    {"WholeSequenceInTorchtitan",
     "torchtitan",
     "",
     {.tensor_parallel = 2, .zero_stage = 2},
     "splits the sequence"},
    {"PipelineInFsdp",
     "pytorch-fsdp",
     "",
     {.pipeline_parallel = 2, .zero_stage = 3},
     "has no pipeline"},
    {"FlashAttentionInContextOfFsdp",
     "pytorch-fsdp",
     "",
     {.data_parallel = 4, .context_parallel = 4, .zero_stage = 3},
     "runs PyTorch's own attention only",
     [](OwnedProblem& problem) { problem.workload.attention_kernel = AttentionKernel::kFlash2; }},
    {"OwnAttentionInContextOfFsdp",
     "pytorch-fsdp",
     "",
     {.data_parallel = 4, .context_parallel = 4, .zero_stage = 3},
     "",
     [](OwnedProblem& problem) { problem.workload.attention_kernel = AttentionKernel::kVendor; }},
    {"ContextInNanotronOf2024",
     "nanotron",
     "2024",
     {.context_parallel = 2},
     "no context parallelism before 2025"},
    {"TwoSynchronousStagesInMegatronLm", "megatron-lm", "2024", Chunked(2, 2),
     "need overlapped sends",
     [](OwnedProblem& problem) { problem.workload.overlap.pipeline_p2p = false; }},
    {"InterleavingInNanotron", "nanotron", "", Chunked(4, 2), "gpipe (afab) and 1f1b"},
    {"ShardedGradientsInMegatronLm",
     "megatron-lm",
     "2023",
     {.data_parallel = 8, .zero_stage = 2},
     "shards states only"},
    {"GroupsOfPartsOfContextInFsdp",
     "pytorch-fsdp",
     "",
     {.data_parallel = 4, .context_parallel = 4, .zero_stage = 3, .zero_group_size = 2},
     "whole groups of context parallelism"},
    {"ReplicasBesideContextInTorchtitan",
     "torchtitan",
     "",
     {.context_parallel = 4},
     "always shard the weights"},
    {"EveryFourthLayerInTorchtitan", "torchtitan", "",
     Recomputing({.data_parallel = 8, .zero_stage = 3}, {20}), "", EightyLayers},
    {"SeventeenLayersInTorchtitan", "torchtitan", "",
     Recomputing({.data_parallel = 8, .zero_stage = 3}, {17}), "every n-th one", EightyLayers},
    {"ExpertsBesideContextInTorchtitan",
     "torchtitan",
     "",
     {.data_parallel = 4, .context_parallel = 4, .expert_parallel = 2, .zero_stage = 3},
     "must be a multiple of context parallelism",
     EightExperts},
    {"SplitSequenceInDeepSpeed",
     "deepspeed",
     "",
     {.tensor_parallel = 2, .sequence_parallel = true},
     "does not split the sequence"},
    {"TensorsInAPipelineOfDeepSpeed",
     "deepspeed",
     "",
     {.tensor_parallel = 2, .pipeline_parallel = 2},
     "splits models without a pipeline"},
    {"SomeLayersInAPipelineOfDeepSpeed", "deepspeed", "",
     Recomputing({.pipeline_parallel = 2}, {5, 5}), "every layer is recomputed or none",
     EightyLayers},
    {"SomeLayersWithoutPipelineInDeepSpeed", "deepspeed", "",
     Recomputing({.data_parallel = 8, .zero_stage = 3}, {5}), "every layer or none", EightyLayers},
    {"EveryLayerWithoutPipelineInDeepSpeed", "deepspeed", "",
     Recomputing({.data_parallel = 8, .zero_stage = 3}, {80}), "", EightyLayers},
    {"SomeLayersInFsdp", "pytorch-fsdp", "",
     Recomputing({.data_parallel = 8, .zero_stage = 3}, {40}), "every layer or none", EightyLayers},
    {"PartsOfLayersInFsdp",
     "pytorch-fsdp",
     "",
     {.data_parallel = 8,
      .zero_stage = 3,
      .recompute = {.granularity = RecomputeGranularity::kSelective}},
     "every layer or none"},
    {"EveryLayerInFsdp", "pytorch-fsdp", "",
     Recomputing({.data_parallel = 8, .zero_stage = 3}, {80}), "", EightyLayers},
    {"SomeLayersInNanotron", "nanotron", "", Recomputing({.data_parallel = 8}, {5}),
     "recomputed or none", EightyLayers},
    {"ShardedGradientsInNanotron",
     "nanotron",
     "",
     {.data_parallel = 8, .zero_stage = 2},
     "the optimizer states only"},
    {"OneForwardOneBackwardInMaxText",
     "maxtext",
     "",
     {.pipeline_parallel = 2},
     "before the first runs backward"},
    {"RingOfTpusInMaxText",
     "maxtext",
     "",
     {.context_parallel = 2, .zero_stage = 3},
     "is for GPUs",
     [](OwnedProblem& problem) { problem.cluster.pools.front().chip.vendor = "Google"; }},
    {"SplitExpertsInPaddle",
     "paddle",
     "",
     {.tensor_parallel = 2, .data_parallel = 4, .expert_parallel = 2, .expert_tensor_parallel = 2},
     "without tensor parallelism only",
     EightExperts},
    {"ShardedGradientsOfOneStageInMegatronDeepSpeed",
     "megatron-deepspeed",
     "2022",
     {.data_parallel = 8, .zero_stage = 2},
     "a pipeline even of one stage"},
    {"ShardedStatesInMegatronDeepSpeed",
     "megatron-deepspeed",
     "2022",
     {.data_parallel = 8, .zero_stage = 1}},
    {"ExchangedHeadsInTorchtitan",
     "torchtitan",
     "",
     {.context_parallel = 2,
      .context_parallel_kind = ContextParallelKind::kUlysses,
      .zero_stage = 3},
     "not heads"},
    {"RingInDeepSpeed",
     "deepspeed",
     "",
     {.data_parallel = 4, .context_parallel = 2, .zero_stage = 3},
     "exchanges heads"},
    {"ExchangedHeadsInMegatronLm",
     "megatron-lm",
     "2024",
     {.context_parallel = 2, .context_parallel_kind = ContextParallelKind::kUlysses},
     "around a ring"},
    {"ZeroBubbleInPaddle",
     "paddle",
     "",
     {.pipeline_parallel = 2, .schedule = Schedule::kZbH1},
     "1f1b, interleaved_1f1b and dualpipe_v only"},
    {"AllForwardFirstInMindSpeed",
     "mindspeed",
     "",
     {.pipeline_parallel = 2, .schedule = Schedule::kGpipe},
     "it runs 1f1b, interleaved_1f1b, dualpipe_v and chimera only"},
    {"OffloadInNanotron",
     "nanotron",
     "",
     {.data_parallel = 8, .zero_stage = 1, .optimizer_offload_ratio = 1},
     "on the device"},
    {"UnfusedAttentionInContext",
     "megatron-core",
     "",
     {.context_parallel = 2},
     "needs flash attention",
     [](OwnedProblem& p) { p.workload.attention_kernel = AttentionKernel::kUnfused; }},
    {"PipelineOfMixtralInPaddle",
     "paddle",
     "",
     {.pipeline_parallel = 2, .data_parallel = 4, .expert_parallel = 4},
     "no form for pipelines",
     EightExperts},
    {"PipelineOfSharedExpertsInPaddle",
     "paddle",
     "",
     {.pipeline_parallel = 2, .data_parallel = 4, .expert_parallel = 4, .zero_stage = 1},
     "",
     [](OwnedProblem& problem) {
       EightExperts(problem);
       problem.model.moe->shared_expert_ffn_hidden_size = 14336;
     }},
    {"WholeExpertsInMindSpeed",
     "mindspeed",
     "",
     {.tensor_parallel = 4, .sequence_parallel = true, .data_parallel = 4, .expert_parallel = 4},
     "",
     EightExperts},
    {"HalfOfTheTensorRanksInMindSpeed",
     "mindspeed",
     "",
     {.tensor_parallel = 4, .sequence_parallel = true, .data_parallel = 4, .expert_parallel = 2},
     "or whole on ranks that include",
     EightExperts},
    {"SplitSequenceInMegatronLmOf2021",
     "megatron-lm",
     "2021",
     {.tensor_parallel = 2, .sequence_parallel = true},
     "no sequence parallelism before 2022"},
    {"VirtualStagesInMegatronDeepSpeed", "megatron-deepspeed", "", Chunked(4, 2),
     "no virtual stages", EightyLayers},
    {"AnythingDividesInGeneric", "generic", "", {.tensor_parallel = 4}, "", TwoKeyHeads},
};

EstimatorProblem Under(const std::vector<const LegalityRule*>& rules, const OwnedProblem& problem) {
  return {.model = problem.model,
          .workload = problem.workload,
          .profile = problem.profile,
          .cluster = problem.cluster,
          .legality = rules};
}

class LegalityTest : public testing::TestWithParam<Case> {};

TEST_P(LegalityTest, Refuses) {
  const Case& c = GetParam();
  OwnedProblem problem = FrameworkProblem(Llama2_70b(), "nvidia-h100-sxm5-80gb", 32, c.framework);
  problem.workload.global_batch_size = 256;
  c.change(problem);
  const auto rules = LegalityRulesOf(c.framework, c.version);
  const EstimatorProblem ruled = Under(rules, problem);
  std::string sentences;
  std::vector<const LegalityRule*> broken = BrokenRules(ruled, c.plan);
  std::ranges::copy(CautionsAbout(ruled, c.plan), std::back_inserter(broken));
  for (const LegalityRule* rule : broken) {
    sentences += std::string(rule->sentence) + "\n";
    // A walk that sets the rule's dimension finds it too; no walk makes stages of their own.
    if (rule->is_for_stages) continue;
    EXPECT_NE(BrokenRule(ruled, c.plan, rule->decided_by), nullptr);
  }
  if (c.refused_for.empty()) {
    EXPECT_THAT(sentences, IsEmpty());
  } else {
    EXPECT_THAT(sentences, HasSubstr(c.refused_for));
  }
}

INSTANTIATE_TEST_SUITE_P(All, LegalityTest, testing::ValuesIn(kCases),
                         [](const auto& instance) { return instance.param.name; });

TEST(LegalityRulesTest, EveryRuleNamesItsSource) {
  const std::set<std::string> known = [] {
    const auto names = Frameworks().Names();
    return std::set<std::string>(names.begin(), names.end());
  }();
  for (const LegalityRule* rule : AllLegalityRules()) {
    EXPECT_FALSE(rule->sentence.empty());
    EXPECT_FALSE(rule->source.empty()) << rule->sentence;
    EXPECT_FALSE(rule->field.empty()) << rule->sentence;
    EXPECT_NE(rule->is_broken, nullptr) << rule->sentence;
    std::istringstream names{std::string(rule->frameworks)};
    for (std::string name; names >> name;) EXPECT_TRUE(known.contains(name)) << name;
  }
}

TEST(LegalityRulesTest, VersionsAreComparedByNumber) {
  EXPECT_TRUE(IsOlder("0.9", "0.12"));
  EXPECT_TRUE(IsOlder("0.14", "0.14.1"));
  EXPECT_TRUE(IsOlder("2023", "2024"));
  EXPECT_FALSE(IsOlder("0.16", "0.16"));
  EXPECT_FALSE(IsOlder("0.16.0rc1", "0.16"));
  EXPECT_FALSE(IsOlder("1.0", "0.16"));
}

// A caution is no refusal, but a walk leaves such plans out.
TEST(LegalityRulesTest, CautionsAreNotSearched) {
  OwnedProblem problem =
      FrameworkProblem(Llama2_70b(), "nvidia-h100-sxm5-80gb", 32, "megatron-core");
  const auto rules = LegalityRulesOf("megatron-core", "0.14");
  const EstimatorProblem ruled = Under(rules, problem);
  const ParallelPlan plan = Chunked(16, 2);  // 5 layers in two chunks
  EXPECT_TRUE(BrokenRules(ruled, plan).empty());
  ASSERT_EQ(CautionsAbout(ruled, plan).size(), 1U);
  EXPECT_THAT(std::string(CautionsAbout(ruled, plan).front()->sentence),
              HasSubstr("--pipeline-model-parallel-layout"));
  EXPECT_NE(BrokenRule(ruled, plan, Dimension::kFirstStage), nullptr);
}

// Measured runs recomputed some layers by code of their own, so they are read.
TEST(LegalityRulesTest, SomeLayersByTheScriptAreNoRefusal) {
  for (const char* framework : {"pytorch-fsdp", "deepspeed"}) {
    OwnedProblem problem = FrameworkProblem(Llama2_70b(), "nvidia-h100-sxm5-80gb", 32, framework);
    const auto rules = LegalityRulesOf(framework, "");
    const EstimatorProblem ruled = Under(rules, problem);
    const ParallelPlan plan = Recomputing({.data_parallel = 8, .zero_stage = 3}, {5});
    EXPECT_TRUE(BrokenRules(ruled, plan).empty()) << framework;
    EXPECT_EQ(CautionsAbout(ruled, plan).size(), 1U) << framework;
  }
}

// Stages of their own shape belong to clusters that no framework of the table knows.
TEST(LegalityRulesTest, StagesOfTheirOwnShapeAreNotChecked) {
  OwnedProblem problem = FrameworkProblem(Llama2_70b(), "nvidia-h100-sxm5-80gb", 32, "torchtitan");
  const auto rules = LegalityRulesOf("torchtitan", "");
  const EstimatorProblem ruled = Under(rules, problem);
  ParallelPlan plan = {.zero_stage = 1};
  ASSERT_FALSE(BrokenRules(ruled, plan).empty());
  plan.stages = {{.pool = "a"}, {.pool = "b"}};
  EXPECT_TRUE(BrokenRules(ruled, plan).empty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

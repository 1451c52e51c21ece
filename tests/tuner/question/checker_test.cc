#include "server/tuner/question/checker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/questions.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

RecomputePlan Mixed(std::vector<int> full, std::vector<int> selective) {
  return {.granularity = RecomputeGranularity::kFull,
          .layer_counts = std::move(full),
          .selective_layer_counts = std::move(selective)};
}

struct Case {
  std::string name;
  ParallelPlan plan = {};
  std::vector<std::string> fields = {};  // empty: legal
  bool has_experts = false;              // four
};

RecomputePlan Recompute(RecomputeGranularity granularity, std::vector<int> layers,
                        std::vector<std::string> modules = {}) {
  return {
      .granularity = granularity, .layer_counts = std::move(layers), .modules = std::move(modules)};
}
constexpr auto kFull = RecomputeGranularity::kFull;
constexpr auto kSelective = RecomputeGranularity::kSelective;

// Returns a problem with four devices, 16 sequences of 1024 tokens, 16 heads and 4 layers.
const Case kCases[] = {
    {"Data", {.data_parallel = 4}},
    {"TooFewDevices", {.data_parallel = 2}, {"plan.data_parallel"}},
    {"TooManyDevices", {.tensor_parallel = 2, .data_parallel = 4}, {"plan.data_parallel"}},
    {"ZeroSize", {.tensor_parallel = 0, .data_parallel = 4}, {"plan.tensor_parallel"}},
    {"NegativeSizes",
     {.pipeline_parallel = -1, .micro_batch_size = -4, .zero_stage = 4, .zero_group_size = -1},
     {"plan.pipeline_parallel", "plan.micro_batch_size", "plan.zero_stage",
      "plan.zero_group_size"}},
    {"BatchDivides", {.data_parallel = 4, .micro_batch_size = 4}},
    {"BatchDoesNotDivide", {.data_parallel = 4, .micro_batch_size = 3}, {"plan.micro_batch_size"}},
    {"SequenceParallelAlone",
     {.sequence_parallel = true, .data_parallel = 4},
     {"plan.sequence_parallel"}},
    {"SequenceParallel", {.tensor_parallel = 4, .sequence_parallel = true}},
    {"HybridContext",
     {.data_parallel = 2,
      .context_parallel = 2,
      .context_parallel_kind = ContextParallelKind::kHybrid}},
    {"ExpertsOfADenseModel", {.data_parallel = 4, .expert_parallel = 2}, {"plan.expert_parallel"}},
    {"Experts", {.data_parallel = 4, .expert_parallel = 4}, {}, true},
    {"ExpertsDoNotDivide",
     {.tensor_parallel = 2, .data_parallel = 2, .expert_parallel = 3},
     {"plan.expert_parallel", "plan.expert_parallel"},  // neither the experts nor the devices
     true},
    {"ExpertsPastTheStage",
     {.pipeline_parallel = 2, .data_parallel = 2, .expert_parallel = 4},
     {"plan.expert_parallel"},
     true},
    {"Interleaved",
     {.pipeline_parallel = 2,
      .virtual_pipeline = 2,
      .data_parallel = 2,
      .schedule = Schedule::kInterleaved1f1b}},
    {"VirtualStagesOfAPlainSchedule",
     {.pipeline_parallel = 2, .virtual_pipeline = 2, .data_parallel = 2},
     {"plan.virtual_pipeline"}},
    {"VirtualStagesOfOneStage",
     {.virtual_pipeline = 2, .data_parallel = 4, .schedule = Schedule::kInterleaved1f1b},
     {"plan.virtual_pipeline"}},
    {"UlyssesDividesHeads",
     {.context_parallel = 4, .context_parallel_kind = ContextParallelKind::kUlysses}},
    {"ZeroBubble", {.pipeline_parallel = 2, .data_parallel = 2, .schedule = Schedule::kZbV}},
    {"HalfALayer",  // one a stage, two chunks
     {.pipeline_parallel = 4, .schedule = Schedule::kZbV},
     {"plan.schedule"}},
    {"TwoDirections",
     {.pipeline_parallel = 2, .data_parallel = 2, .schedule = Schedule::kDualpipe}},
    {"MoreMicroBatchesThanChimeraHas",
     {.pipeline_parallel = 2, .data_parallel = 2, .schedule = Schedule::kChimera},
     {"plan.schedule"}},
    {"OneMicroBatchForTwoDirections",
     {.pipeline_parallel = 2,
      .data_parallel = 2,
      .micro_batch_size = 8,
      .schedule = Schedule::kChimera},
     {"plan.schedule"}},
    {"PipelineInside",
     {.pipeline_parallel = 2, .data_parallel = 2, .rank_order = RankOrder::kTpCpEpPpDp}},
    {"InterleavedInBrokenGroups",  // one micro-batch
     {.pipeline_parallel = 2,
      .virtual_pipeline = 2,
      .data_parallel = 2,
      .micro_batch_size = 8,
      .schedule = Schedule::kInterleaved1f1b},
     {"plan.schedule"}},
    {"UnevenLayers", {.pipeline_parallel = 2, .data_parallel = 2, .layers_per_stage = {1, 3}}},
    {"ChunksOfUnequalLayers",  // as frameworks with a layout of their own run them
     {.pipeline_parallel = 2,
      .virtual_pipeline = 2,
      .data_parallel = 2,
      .schedule = Schedule::kInterleaved1f1b,
      .layers_per_stage = {3, 1}}},
    {"EmptyStage", {.pipeline_parallel = 2, .data_parallel = 2, .layers_per_stage = {4, 0}}},
    {"LayersDoNotAddUp",
     {.pipeline_parallel = 2, .data_parallel = 2, .layers_per_stage = {2, 3}},
     {"plan.layers_per_stage"}},
    {"LayersOfAnotherPipeline",
     {.pipeline_parallel = 2, .data_parallel = 2, .layers_per_stage = {4}},
     {"plan.layers_per_stage"}},
    {"NegativeLayers",
     {.pipeline_parallel = 2, .data_parallel = 2, .layers_per_stage = {5, -1}},
     {"plan.layers_per_stage[1]"}},
    {"LayersPastThirtyTwoBits",  // 2^31 - 1 twice, 3 and 3 wrap to 4
     {.pipeline_parallel = 4, .layers_per_stage = {2147483647, 2147483647, 3, 3}},
     {"plan.layers_per_stage[0]", "plan.layers_per_stage[1]"}},
    {"ExpertsPastThirtyTwoBits",  // 65536 x 65536 wraps to 0
     {.data_parallel = 4, .expert_parallel = 65536, .expert_tensor_parallel = 65536},
     {"plan.expert_parallel", "plan.expert_tensor_parallel"}},
    {"LargeProducts",  // the largest sizes that Validate lets pass
     {.tensor_parallel = 10000,
      .pipeline_parallel = 10000,
      .data_parallel = 100000000,
      .context_parallel = 10000,
      .micro_batch_size = 100000000},
     {"plan.data_parallel", "plan.micro_batch_size", "plan.tensor_parallel",
      "plan.context_parallel"}},
    {"MoreVirtualStagesThanLayers",
     {.pipeline_parallel = 2,
      .virtual_pipeline = 3,
      .data_parallel = 2,
      .schedule = Schedule::kInterleaved1f1b},
     {"plan.virtual_pipeline"}},
    {"MoreRecomputedThanLayers",
     {.pipeline_parallel = 2, .data_parallel = 2, .recompute = Recompute(kFull, {99, 0})},
     {"plan.recompute.layer_counts"}},
    {"StageHeads",
     {.pipeline_parallel = 1,
      .stages = {{.pool = "a", .node_count = 1, .tensor_parallel = 3, .layer_count = 4}}},
     {"plan.stages[0].tensor_parallel", "plan.stages[0].node_count"}},
    {"ShardingGroup", {.data_parallel = 4, .zero_stage = 3, .zero_group_size = 2}},
    {"ShardingGroupDoesNotDivide",
     {.data_parallel = 4, .zero_stage = 3, .zero_group_size = 3},
     {"plan.zero_group_size"}},
    {"Offload",
     {.data_parallel = 4, .optimizer_offload_ratio = 1.5},
     {"plan.optimizer_offload_ratio"}},
    {"ActivationOffload", {.data_parallel = 4, .activation_offload_ratio = 0.5}},
    {"NegativeActivationOffload",
     {.data_parallel = 4, .activation_offload_ratio = -0.5},
     {"plan.activation_offload_ratio"}},
    {"ActivationOffloadWithRecomputation",
     {.data_parallel = 4, .recompute = Recompute(kSelective, {}), .activation_offload_ratio = 0.5},
     {"plan.activation_offload_ratio"}},
    {"WholeWeights", {.data_parallel = 4, .zero_stage = 3, .whole_weights_ratio = 1}},
    {"WholeWeightsUnderZero2",
     {.data_parallel = 4, .zero_stage = 2, .whole_weights_ratio = 0.5},
     {"plan.whole_weights_ratio"}},
    {"MoreThanWholeWeights",
     {.data_parallel = 4, .zero_stage = 3, .whole_weights_ratio = 1.5},
     {"plan.whole_weights_ratio"}},
    {"FullRecompute",
     {.pipeline_parallel = 2, .data_parallel = 2, .recompute = Recompute(kFull, {1, 2})}},
    {"RecomputeOfAnotherPipeline",
     {.pipeline_parallel = 2, .data_parallel = 2, .recompute = Recompute(kFull, {1})},
     {"plan.recompute.layer_counts"}},
    {"RecomputedLayersWithoutFull",
     {.data_parallel = 4, .recompute = Recompute(RecomputeGranularity::kNone, {1})},
     {"plan.recompute.layer_counts"}},
    {"MixedRecompute",
     {.pipeline_parallel = 2, .data_parallel = 2, .recompute = Mixed({1, 0}, {1, 2})}},
    {"MixedRecomputeOfAnotherPipeline",
     {.pipeline_parallel = 2, .data_parallel = 2, .recompute = Mixed({1, 0}, {1})},
     {"plan.recompute.selective_layer_counts"}},
    {"MixedRecomputeOfMoreThanAllLayers",
     {.pipeline_parallel = 2, .data_parallel = 2, .recompute = Mixed({1, 0}, {2, 2})},
     {"plan.recompute.selective_layer_counts"}},
    {"SelectiveLayersWithoutFull",
     {.data_parallel = 4, .recompute = {.granularity = kSelective, .selective_layer_counts = {2}}},
     {"plan.recompute.selective_layer_counts"}},
    {"NegativeSelectiveLayers",
     {.data_parallel = 4, .recompute = Mixed({1}, {-1})},
     {"plan.recompute.selective_layer_counts[0]"}},
    {"NegativeRecompute",
     {.data_parallel = 4, .recompute = Recompute(kFull, {-1})},
     {"plan.recompute.layer_counts[0]"}},
    {"SelectiveModules",
     {.data_parallel = 4, .recompute = Recompute(kSelective, {}, {"core_attn"})}},
    {"UnknownModule",
     {.data_parallel = 4, .recompute = Recompute(kSelective, {}, {"core_attention"})},
     {"plan.recompute.modules"}},
};

class CheckPlanTest : public testing::TestWithParam<Case> {};

TEST_P(CheckPlanTest, NamesWhatIsIllegal) {
  Question question = TinyQuestion();
  if (GetParam().has_experts) question.model = TinyExperts();
  std::vector<std::string> fields;
  for (const FieldViolation& v : CheckPlan(GetParam().plan, Resolved(question), "plan")) {
    fields.push_back(v.field);
  }
  EXPECT_THAT(fields, testing::UnorderedElementsAreArray(GetParam().fields));
}

INSTANTIATE_TEST_SUITE_P(All, CheckPlanTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

// If the framework requires it, activations of a pipeline stay on the device. With recomputation
// they always do.
TEST(ActivationOffloadTest, OneErrorNamesThePipelineAndTheProfile) {
  Question question = TinyQuestion();
  const ParallelPlan plan = {
      .pipeline_parallel = 2, .data_parallel = 2, .activation_offload_ratio = 0.5};
  EXPECT_THAT(CheckPlan(plan, Resolved(question), "plan"), testing::IsEmpty());
  question.workload.framework_name = "megatron-core";
  const auto violations = CheckPlan(plan, Resolved(question), "plan");
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations.front().field, "plan.activation_offload_ratio");
  EXPECT_EQ(violations.front().description,
            "0.5 with 2 pipeline stages; framework profile megatron-core needs one");
}

TEST(WholeWeightsTest, OneErrorNamesTheStageThatTheyNeed) {
  const auto violations =
      CheckPlan({.data_parallel = 4, .zero_stage = 2, .whole_weights_ratio = 0.5},
                Resolved(TinyQuestion()), "plan");
  ASSERT_EQ(violations.size(), 1U);
  EXPECT_EQ(violations.front().field, "plan.whole_weights_ratio");
  EXPECT_EQ(violations.front().description, "0.5 with zero_stage 2; needs zero_stage 3");
}

// The winner's figures against bounds that need no estimator. 4 layers of 12 h^2 = 12 x 1024^2 and
// a tied embedding of 32000 x 1024 are 83 million parameters; in 16 bits on four devices at least
// 2 x 83e6 / 4 = 41.5 MB each. Forward and backward of 50.3 million parameters (the embedding left
// out) on 16 x 1024 tokens are 6 x 50.3e6 x 16384 = 4.95e12 FLOPs: 4 ms at 4 x 312 TFLOP/s.
TEST(CheckEstimateTest, RefusesFiguresThatCannotBeTrue) {
  Question question = TinyQuestion();
  question.model.tied_embeddings = true;
  const Problem problem = Resolved(question);
  const ParallelPlan plan = {.data_parallel = 4};
  const Estimate possible = {.step_time = Seconds(0.1),
                             .peak_memory = GiB(1),
                             .reserved_memory = GiB(2),
                             .memory_capacity = GiB(80),
                             .fits = true};
  Estimate estimate = possible;
  EXPECT_TRUE(CheckEstimate(plan, estimate, problem).ok());
  estimate.peak_memory = Bytes{41'000'000};
  EXPECT_TRUE(absl::IsInternal(CheckEstimate(plan, estimate, problem)));
  estimate = possible;
  estimate.step_time = Seconds(0.001);
  EXPECT_TRUE(absl::IsInternal(CheckEstimate(plan, estimate, problem)));
  estimate = possible;
  estimate.reserved_memory = GiB(81);
  EXPECT_TRUE(absl::IsInternal(CheckEstimate(plan, estimate, problem)));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

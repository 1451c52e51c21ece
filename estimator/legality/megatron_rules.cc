#include <algorithm>

#include "estimator/layer/layer_split.h"
#include "estimator/legality/rule_tables.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {

bool HasOtherSchedule(const EstimatorProblem&, const ParallelPlan& plan) {
  return plan.schedule != Schedule::k1f1b && plan.schedule != Schedule::kInterleaved1f1b;
}

namespace {

using Problem = EstimatorProblem;
using Plan = ParallelPlan;

// FlagScale and MindSpeed run Megatron-Core.
constexpr std::string_view kBuiltOnCore = "megatron-core flagscale mindspeed";

bool HasTwoSynchronousStages(const Problem& problem, const Plan& plan) {
  return plan.schedule == Schedule::kInterleaved1f1b && plan.pipeline_parallel == 2 &&
         !problem.workload.overlap.pipeline_p2p;
}

// The embedding and the loss may count as a layer each of the first and the last stage.
bool HasUnequalChunks(const Problem& problem, const Plan& plan) {
  const int v = plan.virtual_pipeline;
  if (v == 1) return false;
  const std::vector<int> layers = LayersPerStage(plan, problem.model, problem.profile);
  const auto is_short = [&](int count) { return count % v != 0; };
  if (std::ranges::none_of(layers, is_short)) return false;
  std::vector<int> counted = layers;
  const int most = *std::ranges::max_element(layers);
  for (int* end : {&counted.front(), &counted.back()}) *end += *end == most - 1 ? 1 : 0;
  return std::ranges::any_of(counted, [&](int count) { return count != most; }) || most % v != 0;
}

bool HasUnequalVirtualStages(const Problem& problem, const Plan& plan) {
  const std::vector<int> layers = LayersPerStage(plan, problem.model, problem.profile);
  return plan.virtual_pipeline > 1 &&
         std::ranges::any_of(layers, [&](int count) { return count != layers.front(); });
}

bool HasHalfPrecisionExperts(const Problem& problem, const Plan& plan) {
  return problem.workload.precision == Precision::kFp16 && problem.model.moe.has_value() &&
         plan.expert_parallel > 1;
}

bool HasTwoInterleavedStages(const Problem&, const Plan& plan) {
  return plan.schedule == Schedule::kInterleaved1f1b && plan.pipeline_parallel <= 2;
}

bool HasScheduleOfFork(const Problem&, const Plan& plan) {
  return plan.schedule == Schedule::kZbH1 || plan.schedule == Schedule::kZbV;
}

bool HasScheduleOfNoFork(const Problem& problem, const Plan& plan) {
  return HasOtherSchedule(problem, plan) && !HasScheduleOfFork(problem, plan);
}

bool SplitsSequenceOffGaudi(const Problem& problem, const Plan& plan) {
  return SplitsSequence(problem, plan) && !IsOnGaudi(problem);
}

bool SplitsSequenceOnGaudi(const Problem& problem, const Plan& plan) {
  return SplitsSequence(problem, plan) && IsOnGaudi(problem);
}

bool HasUnevenStages(const Problem& problem, const Plan& plan) {
  if (plan.pipeline_parallel == 1) return false;
  const std::vector<int> layers = LayersPerStage(plan, problem.model, problem.profile);
  return std::ranges::any_of(layers, [&](int count) { return count != layers.front(); });
}

bool HasUnevenInnerStages(const Problem& problem, const Plan& plan) {
  if (plan.pipeline_parallel < 4) return false;
  const std::vector<int> layers = LayersPerStage(plan, problem.model, problem.profile);
  return std::any_of(layers.begin() + 1, layers.end() - 1,
                     [&](int count) { return count != layers[1]; });
}

bool OffloadsOtherOptimizer(const Problem& problem, const Plan& plan) {
  return plan.optimizer_offload_ratio > 0 &&
         (plan.zero_stage == 0 || problem.workload.optimizer != Optimizer::kAdam);
}

// With --moe-tp-extend-ep experts are whole, and the ranks of tensor parallelism share them.
bool SplitsExpertsUnlikeMindSpeed(const Problem& problem, const Plan& plan) {
  return SplitsExpertsOtherwise(problem, plan) &&
         (plan.expert_tensor_parallel != 1 || plan.expert_parallel % plan.tensor_parallel != 0);
}

bool SpreadsExpertsUnlikeMindSpeed(const Problem& problem, const Plan& plan) {
  const int shared = SplitsExpertsOtherwise(problem, plan) ? plan.tensor_parallel : 1;
  const int spread = std::max(1, plan.expert_parallel / shared);
  return plan.expert_parallel > 1 && plan.data_parallel * plan.context_parallel % spread != 0;
}

bool SpreadsExpertsBeyondReplicas(const Problem&, const Plan& plan) {
  return plan.expert_parallel > 1 && plan.data_parallel % plan.expert_parallel != 0;
}

// MindSpeed has two more schedules, under --schedules-method.
bool HasOtherScheduleThanMindSpeeds(const Problem& problem, const Plan& plan) {
  return HasOtherSchedule(problem, plan) && plan.schedule != Schedule::kDualpipeV &&
         plan.schedule != Schedule::kChimera;
}

bool GathersContext(const Problem&, const Plan& plan) {
  return plan.context_parallel > 1 && plan.context_parallel_kind == ContextParallelKind::kAllGather;
}

bool RunsUnfusedAttentionInContext(const Problem& problem, const Plan& plan) {
  const AttentionKernel kernel = problem.workload.attention_kernel;
  return plan.context_parallel > 1 &&
         (kernel == AttentionKernel::kUnfused || kernel == AttentionKernel::kFusedSoftmax);
}

bool OffloadsStates(const Problem&, const Plan& plan) { return plan.optimizer_offload_ratio > 0; }

bool SpreadsExperts(const Problem&, const Plan& plan) { return plan.expert_parallel > 1; }
bool ShardsStates(const Problem&, const Plan& plan) { return plan.zero_stage > 0; }
bool HasVirtualStages(const Problem&, const Plan& plan) { return plan.virtual_pipeline > 1; }

bool RecomputesByStageAndChunk(const Problem& problem, const Plan& plan) {
  const std::vector<int>& counts = plan.recompute.layer_counts;
  return plan.virtual_pipeline > 1 && RecomputesSomeLayers(problem, plan) && !counts.empty() &&
         std::ranges::any_of(counts, [&](int count) { return count != counts.front(); });
}

bool SplitsExpertsWithBiases(const Problem& problem, const Plan& plan) {
  return problem.model.moe.has_value() && HasFeedForwardBias(problem.model) &&
         plan.expert_tensor_parallel > 1;
}

bool SendsContextWithSinks(const Problem& problem, const Plan& plan) {
  return problem.model.attention_sinks && plan.context_parallel > 1 &&
         plan.context_parallel_kind != ContextParallelKind::kUlysses;
}

constexpr LegalityRule kMegatronRules[] = {
    {.frameworks = "megatron-core",
     .versions = {.before = "0.16"},
     .decided_by = Dimension::kTensorParallel,
     .field = "tensor_parallel",
     .sentence = "tensor parallelism must divide the key-value heads",
     .source = "megatron/core/transformer/transformer_config.py: num_query_groups must be a "
               "multiple of tensor_model_parallel_size; relaxed by NVIDIA/Megatron-LM#2565; "
               "modelscope/ms-swift#8219",
     .is_broken = &SplitsKeyHeads},
    {.frameworks = "flagscale mindspeed megatron-lm",
     .decided_by = Dimension::kTensorParallel,
     .field = "tensor_parallel",
     .sentence = "tensor parallelism must divide the key-value heads",
     .source = "megatron/core/transformer/transformer_config.py, which it runs: "
               "num_query_groups must be a multiple of tensor_model_parallel_size",
     .is_broken = &SplitsKeyHeads},
    {.frameworks = kBuiltOnCore,
     .decided_by = Dimension::kExpertParallel,
     .field = "expert_parallel",
     .sentence = "experts are not spread over ranks in fp16",
     .source = "megatron/training/arguments.py: Expert parallelism is not supported with fp16 "
               "training",
     .is_broken = &HasHalfPrecisionExperts},
    {.frameworks = "megatron-core",
     .decided_by = Dimension::kExpertTensorParallel,
     .field = "expert_tensor_parallel",
     .sentence = "experts with biases are whole",
     .source =
         "megatron/core/transformer/transformer_config.py: Bias in Moe is only supported when "
         "ETP==1",
     .is_broken = &SplitsExpertsWithBiases},
    {.frameworks = "megatron-core",
     .decided_by = Dimension::kContextParallelKind,
     .field = "context_parallel_kind",
     .sentence = "with sinks of attention, context parallelism exchanges heads (ulysses)",
     .source = "NVIDIA/TransformerEngine#2541: no attention backend for softmax_type = learnable "
               "and cp_comm_type = p2p",
     .is_broken = &SendsContextWithSinks},
    {.frameworks = "megatron-core",
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "it runs 1f1b and interleaved_1f1b only",
     .source = "megatron/core/pipeline_parallel/schedules.py: get_forward_backward_func",
     .is_broken = &HasOtherSchedule},
    {.frameworks = "megatron-lm",
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "it runs 1f1b and interleaved_1f1b only",
     .source = "megatron/core/pipeline_parallel/schedules.py: get_forward_backward_func",
     .is_broken = &HasScheduleOfNoFork},
    {.frameworks = "megatron-lm",
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "it runs 1f1b and interleaved_1f1b only; zero-bubble schedules need a fork of it",
     .source = "github.com/sail-sg/zero-bubble-pipeline-parallelism: --enable-zero-bubble",
     .is_broken = &HasScheduleOfFork,
     .is_caution = true},
    {.frameworks = "mindspeed",
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "it runs 1f1b, interleaved_1f1b, dualpipe_v and chimera only",
     .source = "megatron/core/pipeline_parallel/schedules.py, which it runs; MindSpeed: "
               "--schedules-method dualpipev or chimera",
     .is_broken = &HasOtherScheduleThanMindSpeeds},
    {.frameworks = "mindspeed",
     .versions = {.before = "2025"},
     .decided_by = Dimension::kContextParallelKind,
     .field = "context_parallel_kind",
     .sentence = "context parallelism is ring, ulysses or hybrid",
     .source = "mindspeed_llm/training/arguments.py of 2024: --context-parallel-algo",
     .is_broken = &GathersContext},
    {.frameworks = "megatron-lm",
     .decided_by = Dimension::kContextParallelKind,
     .field = "context_parallel_kind",
     .sentence = "context parallelism goes around a ring",
     .source = "megatron/arguments.py of 2024: there is no --cp-comm-type",
     .is_broken = &SplitsContextWithoutRing},
    {.frameworks = "megatron-core flagscale megatron-lm",
     .decided_by = Dimension::kContextParallel,
     .field = "context_parallel",
     .sentence = "context parallelism needs flash attention or cuDNN's",
     .source = "megatron/core/transformer/dot_product_attention.py: Context parallelism is only "
               "supported by TEDotProductAttention; TransformerEngine: UnfusedDotProductAttention "
               "does not support context parallelism",
     .is_broken = &RunsUnfusedAttentionInContext},
    {.frameworks = "megatron-lm",
     .versions = {.before = "2024"},
     .decided_by = Dimension::kSchedule,
     .field = "pipeline_parallel",
     .sentence = "it interleaves over more than two stages only",
     .source = "megatron/arguments.py: pipeline-model-parallel size should be greater than 2 with "
               "interleaved schedule",
     .is_broken = &HasTwoInterleavedStages},
    {.frameworks = kBuiltOnCore,
     .decided_by = Dimension::kSchedule,
     .field = "pipeline_parallel",
     .sentence = "two interleaved stages need overlapped sends (workload.overlap.pipeline_p2p)",
     .source = "megatron/training/arguments.py: pipeline-model-parallel size should be greater "
               "than 2 with interleaved schedule without overlapped p2p communication",
     .is_broken = &HasTwoSynchronousStages},
    {.frameworks = "megatron-lm",
     .versions = {.since = "2024"},
     .decided_by = Dimension::kSchedule,
     .field = "pipeline_parallel",
     .sentence = "two interleaved stages need overlapped sends (workload.overlap.pipeline_p2p)",
     .source = "megatron/arguments.py: pipeline-model-parallel size should be greater than 2 with "
               "interleaved schedule without overlapped p2p communication",
     .is_broken = &HasTwoSynchronousStages},
    {.frameworks = "mindspeed",
     .decided_by = Dimension::kFirstStage,
     .field = "layers_per_stage",
     .sentence = "with virtual stages all stages must hold equal numbers of layers",
     .source = "megatron/training/arguments.py, which it runs: --num-layers-per-virtual-pipeline-"
               "stage",
     .is_broken = &HasUnequalVirtualStages},
    {.frameworks = "mindspeed",
     .decided_by = Dimension::kFirstStage,
     .field = "virtual_pipeline",
     .sentence = "the virtual stages must hold equal numbers of layers",
     .source =
         "megatron/training/arguments.py, which it runs: number of layers should be divisible "
         "by the virtual pipeline stages",
     .is_broken = &HasUnequalChunks},
    {.frameworks = "megatron-core",
     .versions = {.before = "0.13"},
     .decided_by = Dimension::kFirstStage,
     .field = "virtual_pipeline",
     .sentence = "the virtual stages must hold equal numbers of layers; the embedding and the loss "
                 "may count as a layer each",
     .source = "megatron/training/arguments.py: number of layers should be divisible by the "
               "virtual pipeline stages; --account-for-embedding-in-pipeline-split",
     .is_broken = &HasUnequalChunks},
    {.frameworks = "megatron-core",
     .versions = {.since = "0.13"},
     .decided_by = Dimension::kFirstStage,
     .field = "virtual_pipeline",
     .sentence =
         "virtual stages of unequal numbers of layers need --pipeline-model-parallel-layout; "
         "the estimate takes them for equal",
     .source = "megatron/training/arguments.py: number of layers should be divisible by the "
               "virtual pipeline stages; pipeline_parallel_layer_layout.py",
     .is_broken = &HasUnequalChunks,
     .is_caution = true},
    {.frameworks = "megatron-core",
     .versions = {.before = "0.13"},
     .decided_by = Dimension::kFirstStage,
     .field = "layers_per_stage",
     .sentence = "only the first and the last stage may have their own number of layers",
     .source = "Megatron-Core's change log of 0.13: --pipeline-model-parallel-layout",
     .is_broken = &HasUnevenInnerStages},
    {.frameworks = "megatron-lm",
     .decided_by = Dimension::kFirstStage,
     .field = "layers_per_stage",
     .sentence = "the stages must divide the layers; a layer less beside the embeddings needs the "
                 "fork of zero-bubble schedules",
     .source = "megatron/arguments.py: Number of layers should be divisible by the "
               "pipeline-model-parallel size; github.com/sail-sg/zero-bubble-pipeline-parallelism",
     .is_broken = &HasUnevenStages,
     .is_caution = true},
    {.frameworks = "megatron-lm mindspeed",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "its distributed optimizer shards states only (zero_stage 0 or 1)",
     .source = "megatron/arguments.py, mindspeed_llm/training/arguments.py: "
               "--use-distributed-optimizer",
     .is_broken = &ShardsGradients},
    {.frameworks = "megatron-lm",
     .versions = {.before = "2022"},
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "it has no distributed optimizer before 2022",
     .source = "megatron/arguments.py of 2021: there is no --use-distributed-optimizer",
     .is_broken = &ShardsStates},
    {.frameworks = "megatron-lm",
     .versions = {.before = "2022"},
     .decided_by = Dimension::kSequenceParallel,
     .field = "sequence_parallel",
     .sentence = "it has no sequence parallelism before 2022",
     .source = "megatron/arguments.py of 2021: there is no --sequence-parallel",
     .is_broken = &SplitsSequence},
    {.frameworks = "megatron-lm",
     .versions = {.before = "2024"},
     .decided_by = Dimension::kContextParallel,
     .field = "context_parallel",
     .sentence = "it has no context parallelism before 2024",
     .source = "Megatron-Core's change log of 0.4: context parallelism",
     .is_broken = &SplitsContext},
    {.frameworks = "megatron-lm",
     .versions = {.before = "2024"},
     .decided_by = Dimension::kExpertParallel,
     .field = "expert_parallel",
     .sentence = "it does not spread experts over ranks before 2024",
     .source = "Megatron-Core's change log of 0.4: expert parallelism",
     .is_broken = &SpreadsExperts},
    {.frameworks = "megatron-lm",
     .decided_by = Dimension::kExpertParallel,
     .field = "expert_parallel",
     .sentence = "expert parallelism must divide data parallelism",
     .source = "megatron/core/parallel_state.py: decrease expert_model_parallel_size",
     .is_broken = &SpreadsExpertsBeyondReplicas},
    {.frameworks = "megatron-lm",
     .decided_by = Dimension::kExpertTensorParallel,
     .field = "expert_tensor_parallel",
     .sentence = "experts are split as the other weights are",
     .source = "megatron/arguments.py: there is no --expert-tensor-parallel-size",
     .is_broken = &SplitsExpertsOtherwise,
     .is_caution = true},
    {.frameworks = "mindspeed",
     .decided_by = Dimension::kExpertTensorParallel,
     .field = "expert_tensor_parallel",
     .sentence = "experts are split as the other weights are, or whole on ranks that include those "
                 "of tensor parallelism",
     .source = "mindspeed: tp_extend_ep.py (--moe-tp-extend-ep)",
     .is_broken = &SplitsExpertsUnlikeMindSpeed,
     .is_caution = true},
    {.frameworks = "mindspeed",
     .decided_by = Dimension::kExpertTensorParallel,
     .field = "expert_parallel",
     .sentence = "expert parallelism must divide data x context parallelism",
     .source = "mindspeed/core/parallel_state.py",
     .is_broken = &SpreadsExpertsUnlikeMindSpeed},
    {.frameworks = "megatron-deepspeed",
     .versions = {.before = "2023"},
     .decided_by = Dimension::kSequenceParallel,
     .field = "sequence_parallel",
     .sentence = "it has no sequence parallelism",
     .source = "bigscience-workshop/Megatron-DeepSpeed: megatron/arguments.py",
     .is_broken = &SplitsSequenceOffGaudi},
    {.frameworks = "megatron-deepspeed",
     .versions = {.before = "2023"},
     .decided_by = Dimension::kSequenceParallel,
     .field = "sequence_parallel",
     .sentence = "sequence parallelism needs the fork for Gaudi",
     .source = "HabanaAI/Megatron-DeepSpeed: scripts/run_llama.sh (HL_SEQ_PARALLEL)",
     .is_broken = &SplitsSequenceOnGaudi,
     .is_caution = true},
    {.frameworks = "megatron-deepspeed",
     .versions = {.before = "2023"},
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "it builds a pipeline even of one stage, with which ZeRO shards states only "
                 "(zero_stage 0 or 1)",
     .source = "bigscience-workshop/Megatron-DeepSpeed: pretrain_gpt.py builds GPTModelPipe with "
               "--deepspeed; deepspeed/runtime/pipe/engine.py: ZeRO-2 and ZeRO-3 are incompatible "
               "with pipeline parallelism",
     .is_broken = &ShardsGradients},
    {.frameworks = "megatron-deepspeed",
     .versions = {.before = "2023"},
     .decided_by = Dimension::kContextParallel,
     .field = "context_parallel",
     .sentence = "it has no context parallelism",
     .source = "bigscience-workshop/Megatron-DeepSpeed: megatron/arguments.py",
     .is_broken = &SplitsContext},
    {.frameworks = "megatron-deepspeed",
     .versions = {.before = "2023"},
     .decided_by = Dimension::kRecompute,
     .field = "recompute",
     .sentence = "its versions of 2022 recompute whole layers only",
     .source = "bigscience-workshop/Megatron-DeepSpeed: --checkpoint-activations",
     .is_broken = &RecomputesPartOfLayers,
     .is_caution = true},
    {.frameworks = "megatron-deepspeed",
     .decided_by = Dimension::kVirtualPipeline,
     .field = "virtual_pipeline",
     .sentence = "DeepSpeed's pipeline has no virtual stages",
     .source = "deepspeed/runtime/pipe/schedule.py: TrainSchedule",
     .is_broken = &HasVirtualStages},
    {.frameworks = "flagscale",
     .decided_by = Dimension::kRecompute,
     .field = "recompute.layer_counts",
     .sentence = "stages recompute different numbers of layers without virtual stages only",
     .source = "FlagScale: --recompute-num-layers-per-stage-micro-batch",
     .is_broken = &RecomputesByStageAndChunk},
    {.frameworks = "megatron-lm",
     .decided_by = Dimension::kOptimizerOffload,
     .field = "optimizer_offload_ratio",
     .sentence = "it keeps the optimizer states on the device",
     .source = "megatron/arguments.py of 2024: there is no --optimizer-cpu-offload",
     .is_broken = &OffloadsStates},
    {.frameworks = "megatron-core flagscale",
     .decided_by = Dimension::kOptimizerOffload,
     .field = "optimizer_offload_ratio",
     .sentence = "offload needs the distributed optimizer (zero_stage 1 or more) and Adam",
     .source = "megatron/core/optimizer/optimizer_config.py: only supported with distributed "
               "optimizer, only supported with adam",
     .is_broken = &OffloadsOtherOptimizer},
};

}  // namespace

std::span<const LegalityRule> MegatronRules() { return kMegatronRules; }

}  // namespace meshwright

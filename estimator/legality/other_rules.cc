#include <algorithm>

#include "estimator/legality/host_memory.h"
#include "estimator/legality/recompute_form.h"
#include "estimator/legality/rule_tables.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

using Problem = EstimatorProblem;
using Plan = ParallelPlan;

bool LacksSequenceParallelism(const Problem& problem, const Plan& plan) {
  return plan.tensor_parallel > 1 && !plan.sequence_parallel && problem.model.moe.has_value() &&
         problem.profile.experts_need_sequence_parallel;
}

// Megatron-Core numbers the ranks of experts separately, and finds the same pipelines only under
// this condition.
bool NumbersExpertsOtherwise(const Problem& problem, const Plan& plan) {
  return problem.profile.experts_need_outer_pipeline && problem.model.moe.has_value() &&
         plan.rank_order != RankOrder::kTpCpEpDpPp &&
         plan.expert_parallel * plan.expert_tensor_parallel !=
             plan.tensor_parallel * plan.context_parallel;
}

bool ShardsTooMuchInPipeline(const Problem& problem, const Plan& plan) {
  return plan.pipeline_parallel > 1 &&
         plan.zero_stage > problem.profile.largest_zero_stage_with_pipeline;
}

bool HasOtherScheduleThanNanotrons(const Problem&, const Plan& plan) {
  return plan.pipeline_parallel > 1 && plan.schedule != Schedule::kGpipe &&
         plan.schedule != Schedule::k1f1b;
}

bool HasUnevenMicroBatches(const Problem& problem, const Plan& plan) {
  return plan.pipeline_parallel > 1 &&
         MicroBatchCount(plan, problem.workload.global_batch_size) % plan.pipeline_parallel != 0;
}

bool HasOtherScheduleThanGpipe(const Problem&, const Plan& plan) {
  return plan.pipeline_parallel > 1 && plan.schedule != Schedule::kGpipe;
}

bool ShardsGradientsOnly(const Problem&, const Plan& plan) { return plan.zero_stage == 2; }

bool ReplicatesWeightsBesideContext(const Problem&, const Plan& plan) {
  return plan.context_parallel > 1 && plan.zero_stage != 3;
}

bool ShardsStatesInGroups(const Problem&, const Plan& plan) {
  return plan.zero_stage == 1 && ShardingRanks(plan) != plan.data_parallel * plan.context_parallel;
}

bool SpreadsExpertsUnlikeMaxText(const Problem&, const Plan& plan) {
  if (plan.expert_parallel == 1) return false;
  const int shards = ShardingRanks(plan) / plan.context_parallel;
  return plan.zero_stage != 3 || shards % plan.expert_parallel != 0;
}

bool HasOtherScheduleThanPaddles(const Problem&, const Plan& plan) {
  return plan.pipeline_parallel > 1 && plan.schedule != Schedule::k1f1b &&
         plan.schedule != Schedule::kInterleaved1f1b && plan.schedule != Schedule::kDualpipeV;
}

bool SplitsContextUnlikePaddle(const Problem&, const Plan& plan) {
  return plan.context_parallel > 1 && plan.context_parallel_kind != ContextParallelKind::kRing &&
         plan.context_parallel_kind != ContextParallelKind::kUlysses;
}

bool HasUnequalParts(const Problem& problem, const Plan& plan) {
  return problem.model.layer_count % (plan.pipeline_parallel * plan.virtual_pipeline) != 0;
}

// Mixtral is the only family that PaddleNLP has with experts, without shared ones, latent attention
// or norms of queries and keys.
bool HasPipelineOfMixtral(const Problem& problem, const Plan& plan) {
  const ModelSpec& model = problem.model;
  return plan.pipeline_parallel > 1 && model.moe.has_value() && !model.mla.has_value() &&
         !model.qk_norm && model.moe->shared_expert_ffn_hidden_size == 0;
}

bool SpreadsSplitExperts(const Problem&, const Plan& plan) {
  return plan.expert_parallel > 1 && plan.tensor_parallel > 1;
}

bool SpreadsExpertsBeyondShards(const Problem&, const Plan& plan) {
  const int group = plan.zero_group_size > 0 ? plan.zero_group_size : plan.data_parallel;
  const int ranks = plan.zero_stage == 0 ? plan.data_parallel : group;
  return ranks % plan.expert_parallel != 0;
}

bool ShardsBeyondReplicas(const Problem&, const Plan& plan) {
  return plan.zero_stage > 0 && plan.data_parallel % ShardingRanks(plan) != 0;
}

bool ReplicatesInsidePipelines(const Problem&, const Plan& plan) {
  const int shards = plan.zero_stage == 0 ? 1 : ShardingRanks(plan);
  return plan.pipeline_parallel > 1 && plan.rank_order != RankOrder::kTpCpEpPpDp &&
         plan.data_parallel > shards;
}

bool RecomputesSomeLayersOfChunks(const Problem& problem, const Plan& plan) {
  const bool is_full = plan.recompute.granularity == RecomputeGranularity::kFull &&
                       plan.recompute.selective_layer_counts.empty();
  return RecomputesSomeLayers(problem, plan) && (!is_full || plan.virtual_pipeline > 1);
}

// Returns the bytes of offloaded states on each node: master weights and moments of Adam, in fp32.
double OffloadedBytesOfNode(const Problem& problem, const Plan& plan) {
  constexpr double kStateBytes = 12;
  const double copies = static_cast<double>(plan.data_parallel) * plan.context_parallel /
                        (plan.zero_stage == 0 ? 1 : ShardingRanks(plan));
  const auto parameters = static_cast<double>(ParameterCount(problem.model, false));
  return kStateBytes * parameters * plan.optimizer_offload_ratio * copies /
         problem.cluster.pools.front().node_count;
}

bool OverfillsHosts(const Problem& problem, const Plan& plan) {
  const auto& pools = problem.cluster.pools;
  if (plan.optimizer_offload_ratio == 0 || pools.empty() || !pools.front().host.memory) {
    return false;
  }
  return OffloadedBytesOfNode(problem, plan) >
         static_cast<double>(pools.front().host.memory->count);
}

bool OverfillsAssumedHosts(const Problem& problem, const Plan& plan) {
  const auto& pools = problem.cluster.pools;
  if (plan.optimizer_offload_ratio == 0 || pools.empty() || pools.front().host.memory) {
    return false;
  }
  return OffloadedBytesOfNode(problem, plan) >
         static_cast<double>(AssumedHostMemory(pools.front()).count);
}

bool RingsOnTpus(const Problem& problem, const Plan& plan) {
  const auto& pools = problem.cluster.pools;
  return plan.context_parallel > 1 && plan.context_parallel_kind == ContextParallelKind::kRing &&
         !pools.empty() && pools.front().chip.vendor == "Google";
}

bool OffloadsOptimizer(const Problem&, const Plan& plan) {
  return plan.optimizer_offload_ratio > 0;
}

constexpr LegalityRule kOtherRules[] = {
    {.frameworks = "nanotron",
     .versions = {.before = "2025"},
     .decided_by = Dimension::kContextParallel,
     .field = "context_parallel",
     .sentence = "it has no context parallelism before 2025",
     .source = "nanotron/config/parallelism_config.py: context_parallel_size is not among the "
               "arguments of 2024",
     .is_broken = &SplitsContext},
    {.frameworks = "nanotron",
     .decided_by = Dimension::kContextParallelKind,
     .field = "context_parallel_kind",
     .sentence = "context parallelism goes around a ring",
     .source = "nanotron/nn/ring_attention.py",
     .is_broken = &SplitsContextWithoutRing},
    {.frameworks = "nanotron",
     .decided_by = Dimension::kOptimizerOffload,
     .field = "optimizer_offload_ratio",
     .sentence = "it keeps the optimizer states on the device",
     .source = "nanotron/config/config.py: OptimizerArgs has no offload",
     .is_broken = &OffloadsOptimizer},
    {.frameworks = "nanotron",
     .decided_by = Dimension::kTensorParallel,
     .field = "tensor_parallel",
     .sentence = "tensor parallelism must divide the key-value heads",
     .source = "nanotron/config/config.py: num_key_value_heads must be >= tp; its models split "
               "them evenly",
     .is_broken = &SplitsKeyHeads},
    {.frameworks = "nanotron",
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "it runs gpipe (afab) and 1f1b only",
     .source = "nanotron/config/utils_config.py: pp_engine should be selected in afab, 1f1b",
     .is_broken = &HasOtherScheduleThanNanotrons},
    {.frameworks = "nanotron",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "it shards the optimizer states only (zero_stage 0 or 1)",
     .source = "nanotron/config/config.py: OptimizerArgs.zero_stage",
     .is_broken = &ShardsGradients},
    {.frameworks = "nanotron maxtext megatron-deepspeed",
     .decided_by = Dimension::kRecompute,
     .field = "recompute.layer_counts",
     .sentence = "all layers are recomputed or none",
     .source = "nanotron: recompute_layer; MaxText: remat_policy of all layers in one scan; "
               "Megatron-DeepSpeed: --checkpoint-activations",
     .is_broken = &RecomputesSomeLayers},
    {.frameworks = "nanotron",
     .decided_by = Dimension::kRecompute,
     .field = "recompute",
     .sentence = "layers are recomputed as a whole or not at all",
     .source = "nanotron/config/parallelism_config.py: recompute_layer",
     .is_broken = &RecomputesPartOfLayers},
    {.frameworks = "maxtext",
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "all micro-batches run forward before the first runs backward (gpipe)",
     .source = "MaxText/layers/pipeline.py: a scan over the iterations, differentiated as a whole",
     .is_broken = &HasOtherScheduleThanGpipe},
    {.frameworks = "maxtext",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "gradients are not sharded without the weights (zero_stage 0, 1 or 3)",
     .source = "MaxText/configs/base.yml: shard_optimizer_over_data, fsdp axes",
     .is_broken = &ShardsGradientsOnly},
    {.frameworks = "maxtext",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "ranks of context parallelism always shard the weights: zero_stage 3",
     .source = "MaxText/configs/base.yml: logical_axis_rules of embed have the axis context",
     .is_broken = &ReplicatesWeightsBesideContext},
    {.frameworks = "maxtext",
     .decided_by = Dimension::kZeroGroupSize,
     .field = "zero_group_size",
     .sentence = "the optimizer states alone are sharded over all replicas",
     .source = "MaxText/configs/base.yml: shard_optimizer_over_data",
     .is_broken = &ShardsStatesInGroups},
    {.frameworks = "maxtext",
     .decided_by = Dimension::kZeroGroupSize,
     .field = "expert_parallel",
     .sentence = "experts take ranks that shard the weights: zero_stage 3, and a divisor of them",
     .source = "MaxText/configs/base.yml: mesh_axes and data_sharding have the axis expert",
     .is_broken = &SpreadsExpertsUnlikeMaxText},
    {.frameworks = "maxtext paddle",
     .decided_by = Dimension::kExpertTensorParallel,
     .field = "expert_tensor_parallel",
     .sentence = "experts are split as the other weights are",
     .source = "MaxText/configs/base.yml: mesh_axes; paddlenlp/trainer/training_args.py has no "
               "degree of their own",
     .is_broken = &SplitsExpertsOtherwise,
     .is_caution = true},
    {.frameworks = "maxtext paddle",
     .decided_by = Dimension::kVirtualPipeline,
     .field = "pipeline_parallel",
     .sentence = "the stages and virtual stages must divide the layers",
     .source = "MaxText/configs/types.py: num_layers_per_pipeline_stage; PaddleNLP: "
               "pp_layers.py segments layers uniformly",
     .is_broken = &HasUnequalParts},
    {.frameworks = "maxtext",
     .versions = {.before = "2026"},
     .decided_by = Dimension::kContextParallelKind,
     .field = "context_parallel_kind",
     .sentence = "context parallelism is all_gather or ring",
     .source = "MaxText/configs/types.py of 2025: context_parallel_strategy",
     .is_broken = &ExchangesHeads},
    {.frameworks = "maxtext",
     .decided_by = Dimension::kContextParallelKind,
     .field = "context_parallel_kind",
     .sentence = "context parallelism in a ring is for GPUs",
     .source = "MaxText/configs/types.py: Ring context parallelism strategy is only supported on "
               "GPUs",
     .is_broken = &RingsOnTpus},
    {.frameworks = "paddle",
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "it runs 1f1b, interleaved_1f1b and dualpipe_v only",
     .source = "paddle/distributed/fleet/meta_parallel: PipelineParallel, "
               "PipelineParallelWithInterleave, DualPipeVParallel",
     .is_broken = &HasOtherScheduleThanPaddles},
    {.frameworks = "paddle",
     .decided_by = Dimension::kContextParallelKind,
     .field = "context_parallel_kind",
     .sentence = "context parallelism is ring or ulysses",
     .source = "paddlenlp/trainer/training_args.py: context_parallel_degree (ring), "
               "sep_parallel_degree (heads)",
     .is_broken = &SplitsContextUnlikePaddle},
    {.frameworks = "paddle",
     .decided_by = Dimension::kPipelineParallel,
     .field = "pipeline_parallel",
     .sentence = "its Mixtral (experts without shared ones) has no form for pipelines",
     .source = "paddlenlp/transformers/mixtral has no modeling_pp.py; qwen2_moe, qwen3_moe and "
               "deepseek_v2 have one",
     .is_broken = &HasPipelineOfMixtral},
    {.frameworks = "paddle",
     .decided_by = Dimension::kOptimizerOffload,
     .field = "optimizer_offload_ratio",
     .sentence = "it keeps the optimizer states on the device",
     .source = "paddlenlp/trainer/training_args.py: offload is not supported NOW!",
     .is_broken = &OffloadsOptimizer},
    {.frameworks = "paddle",
     .decided_by = Dimension::kExpertParallel,
     .field = "expert_parallel",
     .sentence = "experts are spread without tensor parallelism only",
     .source = "paddlenlp/trainer/training_args.py: expert_parallel_degree",
     .is_broken = &SpreadsSplitExperts},
    {.frameworks = "paddle",
     .decided_by = Dimension::kZeroGroupSize,
     .field = "expert_parallel",
     .sentence = "expert parallelism must divide the ranks that shard the states",
     .source =
         "paddlenlp/trainer/training_args.py: expert_parallel_degree, sharding_parallel_degree",
     .is_broken = &SpreadsExpertsBeyondShards},
    {.frameworks = "paddle",
     .decided_by = Dimension::kZeroGroupSize,
     .field = "zero_group_size",
     .sentence = "states are sharded over ranks of data parallelism, without those of context "
                 "parallelism",
     .source = "paddlenlp/trainer/training_args.py: sharding_parallel_degree",
     .is_broken = &ShardsBeyondReplicas},
    {.frameworks = "paddle",
     .decided_by = Dimension::kZeroGroupSize,
     .field = "rank_order",
     .sentence = "replicas that do not shard are always outside of pipelines",
     .source = "paddlenlp/trainer/training_args.py: hybrid_parallel_topo_order",
     .is_broken = &ReplicatesInsidePipelines},
    {.frameworks = "paddle",
     .decided_by = Dimension::kRecompute,
     .field = "recompute.layer_counts",
     .sentence = "a part of the layers is recomputed in full and without virtual stages only",
     .source = "paddlenlp: no_recompute_layers",
     .is_broken = &RecomputesSomeLayersOfChunks},
    {.frameworks = "maxtext",
     .decided_by = Dimension::kMicroBatchSize,
     .field = "micro_batch_size",
     .sentence = "the stages must divide the micro-batches",
     .source = "MaxText/configs/types.py: The number of microbatches must be divisible by the "
               "number of stages",
     .is_broken = &HasUnevenMicroBatches},
    {.decided_by = Dimension::kOptimizerOffload,
     .field = "optimizer_offload_ratio",
     .sentence = "the hosts have too little memory for the offloaded states",
     .source = "cluster.pools[].host.memory_bytes; 12 bytes a parameter",
     .is_broken = &OverfillsHosts},
    {.decided_by = Dimension::kOptimizerOffload,
     .field = "optimizer_offload_ratio",
     .sentence = "the hosts, whose memory is not stated, need more for the offloaded states than "
                 "their devices have",
     .source = "cluster.pools[].host.memory_bytes; published servers have 1.3 to 3.2 times the "
               "memory of their devices",
     .is_broken = &OverfillsAssumedHosts,
     .is_caution = true},
    {.decided_by = Dimension::kSequenceParallel,
     .field = "sequence_parallel",
     .sentence = "experts under tensor parallelism need sequence parallelism",
     .source = "experts_need_sequence_parallel of the framework profile; "
               "megatron/core/transformer/moe/moe_layer.py raises an error in training",
     .is_broken = &LacksSequenceParallelism,
     .is_caution = true,
     .reads_profile = true},
    {.decided_by = Dimension::kRankOrder,
     .field = "rank_order",
     .sentence = "with pipelines inside data parallelism, expert x expert_tensor must be tensor x "
                 "context",
     .source = "experts_need_outer_pipeline of the framework profile",
     .is_broken = &NumbersExpertsOtherwise,
     .reads_profile = true},
    {.decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "this stage of ZeRO cannot be combined with a pipeline",
     .source = "largest_zero_stage_with_pipeline of the framework profile",
     .is_broken = &ShardsTooMuchInPipeline,
     .reads_profile = true},
};

}  // namespace

bool SplitsKeyHeads(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return !problem.model.mla.has_value() && problem.model.kv_head_count % plan.tensor_parallel != 0;
}

bool SplitsContext(const EstimatorProblem&, const ParallelPlan& plan) {
  return plan.context_parallel > 1;
}

bool SplitsContextWithoutRing(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return SplitsContext(problem, plan) && plan.context_parallel_kind != ContextParallelKind::kRing;
}

bool ExchangesHeads(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return SplitsContext(problem, plan) &&
         (plan.context_parallel_kind == ContextParallelKind::kUlysses ||
          plan.context_parallel_kind == ContextParallelKind::kHybrid);
}

bool SplitsExpertsOtherwise(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return problem.model.moe.has_value() && plan.expert_tensor_parallel != plan.tensor_parallel;
}

bool SplitsSequence(const EstimatorProblem&, const ParallelPlan& plan) {
  return plan.tensor_parallel > 1 && plan.sequence_parallel;
}

bool IsOnGaudi(const EstimatorProblem& problem) {
  return std::ranges::all_of(problem.cluster.pools,
                             [](const NodePool& pool) { return pool.chip.vendor == "Intel"; });
}

bool ShardsGradients(const EstimatorProblem&, const ParallelPlan& plan) {
  return plan.zero_stage >= 2;
}

bool RecomputesSomeLayers(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return RecomputeFormOf(problem.model, problem.profile, plan) == RecomputeForm::kSomeLayers;
}

bool RecomputesPartOfLayers(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return RecomputeFormOf(problem.model, problem.profile, plan) == RecomputeForm::kSelective;
}

int ShardingRanks(const ParallelPlan& plan) {
  return plan.zero_group_size > 0 ? plan.zero_group_size
                                  : plan.data_parallel * plan.context_parallel;
}

std::span<const LegalityRule> OtherRules() { return kOtherRules; }

}  // namespace meshwright

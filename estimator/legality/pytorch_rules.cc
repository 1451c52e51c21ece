#include "estimator/legality/recompute_form.h"
#include "estimator/legality/rule_tables.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

using Problem = EstimatorProblem;
using Plan = ParallelPlan;

bool SplitsSequenceUnevenly(const Problem& problem, const Plan& plan) {
  const int parts = 2 * plan.context_parallel * plan.tensor_parallel;
  return problem.workload.sequence_length % parts != 0;
}

bool LeavesSequenceWhole(const Problem&, const Plan& plan) {
  return plan.tensor_parallel > 1 && !plan.sequence_parallel;
}

bool HasPipeline(const Problem&, const Plan& plan) { return plan.pipeline_parallel > 1; }
bool ReplicatesBesideContext(const Problem&, const Plan& plan) {
  return plan.zero_stage == 0 && plan.context_parallel > 1;
}

bool ShardsOverPartOfContext(const Problem&, const Plan& plan) {
  return plan.zero_stage > 0 && ShardingRanks(plan) % plan.context_parallel != 0;
}

bool RunsOtherAttentionInContext(const Problem& problem, const Plan& plan) {
  return plan.context_parallel > 1 && problem.workload.attention_kernel != AttentionKernel::kVendor;
}

bool SplitsExpertsUnlikeTitan(const Problem& problem, const Plan& plan) {
  return SplitsExpertsOtherwise(problem, plan) &&
         (plan.expert_tensor_parallel != 1 || plan.expert_parallel == 1);
}

// Experts take their ranks from sharded data and context parallelism, and from tensor parallelism
// too unless their own is the same.
bool SpreadsExpertsUnlikeTitan(const Problem& problem, const Plan& plan) {
  if (plan.expert_parallel == 1) return false;
  const int shared = SplitsExpertsOtherwise(problem, plan) ? plan.tensor_parallel : 1;
  const int ranks = plan.zero_stage == 0 ? plan.context_parallel : ShardingRanks(plan);
  return plan.expert_parallel % (plan.context_parallel * shared) != 0 ||
         ranks * shared % plan.expert_parallel != 0;
}

bool RecomputesOtherThanEveryNthLayer(const Problem& problem, const Plan& plan) {
  return RecomputesSomeLayers(problem, plan) &&
         !RecomputeInterval(problem.model, problem.profile, plan).has_value();
}

bool SplitsWeightsInPipeline(const Problem&, const Plan& plan) {
  return plan.tensor_parallel > 1 && plan.pipeline_parallel > 1;
}

bool ExchangesHeadsInMesh(const Problem&, const Plan& plan) {
  return plan.context_parallel > 1 && plan.tensor_parallel * plan.pipeline_parallel > 1;
}

bool RecomputesSomeOnly(const Problem& problem, const Plan& plan) {
  return RecomputesSomeLayers(problem, plan) || RecomputesPartOfLayers(problem, plan);
}

bool RecomputesPartsInPipeline(const Problem& problem, const Plan& plan) {
  return plan.pipeline_parallel > 1 && RecomputesSomeOnly(problem, plan);
}

bool RecomputesPartsInPipelineOffGaudi(const Problem& problem, const Plan& plan) {
  return RecomputesPartsInPipeline(problem, plan) && !IsOnGaudi(problem);
}

bool RecomputesPartsInPipelineOnGaudi(const Problem& problem, const Plan& plan) {
  return RecomputesPartsInPipeline(problem, plan) && IsOnGaudi(problem);
}

bool SpreadsAnyExperts(const Problem&, const Plan& plan) { return plan.expert_parallel > 1; }

bool SplitsExperts(const Problem& problem, const Plan& plan) {
  return problem.model.moe.has_value() && plan.expert_tensor_parallel > 1;
}

bool HasFewerMicroBatchesThanStages(const Problem& problem, const Plan& plan) {
  const bool is_single = plan.schedule == Schedule::k1f1b || plan.schedule == Schedule::kGpipe;
  return is_single && plan.pipeline_parallel > 1 &&
         MicroBatchCount(plan, problem.workload.global_batch_size) < plan.pipeline_parallel;
}

bool HasOtherScheduleThan1f1b(const Problem&, const Plan& plan) {
  return plan.pipeline_parallel > 1 && plan.schedule != Schedule::k1f1b;
}

bool SplitsContextUnlikeDeepSpeed(const Problem&, const Plan& plan) {
  return plan.context_parallel > 1 && plan.context_parallel_kind != ContextParallelKind::kUlysses;
}

bool HasOtherScheduleThanTitans(const Problem&, const Plan& plan) {
  return plan.pipeline_parallel > 1 &&
         (plan.schedule == Schedule::kZbH1 || plan.schedule == Schedule::kDualpipe ||
          plan.schedule == Schedule::kChimera);
}

bool ShardsStatesOnly(const Problem&, const Plan& plan) { return plan.zero_stage == 1; }

bool ReplicatesBesideTensors(const Problem&, const Plan& plan) {
  return plan.zero_stage == 0 && plan.data_parallel > 1 && plan.context_parallel == 1 &&
         (plan.tensor_parallel > 1 || plan.pipeline_parallel > 1);
}

bool ShardsSplitWeights(const Problem&, const Plan& plan) {
  return plan.tensor_parallel > 1 && plan.zero_stage == 3;
}

bool ShardsSpreadExperts(const Problem&, const Plan& plan) {
  return plan.expert_parallel > 1 && plan.zero_stage == 3;
}

bool ShardsLessThanWeightsInGroups(const Problem&, const Plan& plan) {
  const int group = plan.zero_group_size;
  return group > 0 && group < plan.data_parallel * plan.context_parallel && plan.zero_stage < 3;
}

bool OffloadsAny(const Problem&, const Plan& plan) { return plan.optimizer_offload_ratio > 0; }

bool OffloadsPart(const Problem&, const Plan& plan) {
  return plan.optimizer_offload_ratio > 0 && plan.optimizer_offload_ratio < 1;
}

bool OffloadsPartOfStates(const Problem& problem, const Plan& plan) {
  return OffloadsPart(problem, plan) && plan.zero_stage < 3;
}

bool SplitsSinksIntoStages(const Problem& problem, const Plan& plan) {
  return problem.model.attention_sinks && plan.pipeline_parallel > 1;
}

bool SplitsContextOfSinks(const Problem& problem, const Plan& plan) {
  return problem.model.attention_sinks && plan.context_parallel > 1;
}

constexpr LegalityRule kPyTorchRules[] = {
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kPipelineParallel,
     .field = "pipeline_parallel",
     .sentence = "its model with sinks of attention has no pipeline",
     .source = "torchtitan/experiments/gpt_oss/__init__.py: pipelining_fn=None",
     .is_broken = &SplitsSinksIntoStages},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kContextParallel,
     .field = "context_parallel",
     .sentence = "its attention with sinks has no context parallelism",
     .source =
         "torchtitan/experiments/gpt_oss/model/args.py: CP support for FlexAttention is still "
         "in progress",
     .is_broken = &SplitsContextOfSinks},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kTensorParallel,
     .field = "tensor_parallel",
     .sentence = "tensor parallelism must divide the key-value heads",
     .source = "pytorch/torchtitan#2577; before it the first step fails (pytorch/torchtitan#932)",
     .is_broken = &SplitsKeyHeads},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kContextParallel,
     .field = "context_parallel",
     .sentence = "the sequence must be a multiple of 2 x context x tensor parallelism",
     .source = "torchtitan/distributed/parallel_dims.py: seq_len_divisor",
     .is_broken = &SplitsSequenceUnevenly},
    {.frameworks = "pytorch-fsdp",
     .decided_by = Dimension::kContextParallel,
     .field = "context_parallel",
     .sentence = "context parallelism runs PyTorch's own attention only (attention_kernel vendor)",
     .source = "accelerate, concept guide on context parallelism: works only with SDPA; any other "
               "attention implementation raises an error",
     .is_broken = &RunsOtherAttentionInContext},
    {.frameworks = "torchtitan pytorch-fsdp",
     .decided_by = Dimension::kContextParallelKind,
     .field = "context_parallel_kind",
     .sentence = "context parallelism exchanges keys and values (ring or all_gather), not heads",
     .source = "torchtitan/config/job_config.py: context_parallel_rotate_method; "
               "accelerate/parallelism_config.py: cp_comm_strategy; both allgather or alltoall",
     .is_broken = &ExchangesHeads},
    {.frameworks = "deepspeed",
     .decided_by = Dimension::kContextParallelKind,
     .field = "context_parallel_kind",
     .sentence = "its sequence parallelism exchanges heads (ulysses)",
     .source = "deepspeed/sequence/layer.py: DistributedAttention",
     .is_broken = &SplitsContextUnlikeDeepSpeed},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "it runs gpipe, 1f1b, interleaved_1f1b, zb_v and dualpipe_v",
     .source = "torch/distributed/pipelining/schedules.py: get_schedule_class",
     .is_broken = &HasOtherScheduleThanTitans},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kSequenceParallel,
     .field = "sequence_parallel",
     .sentence = "tensor parallelism always splits the sequence too",
     .source = "torchtitan/models/llama3/infra/parallelize.py: apply_tp uses SequenceParallel",
     .is_broken = &LeavesSequenceWhole},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kSchedule,
     .field = "micro_batch_size",
     .sentence = "a pipeline needs at least as many micro-batches as stages",
     .source = "torch/distributed/pipelining/schedules.py: Number of microbatches must be greater "
               "than or equal to the number of stages",
     .is_broken = &HasFewerMicroBatchesThanStages},
    {.frameworks = "torchtitan pytorch-fsdp",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "parameters are sharded with the optimizer states: zero_stage 0 (replicas), 2 "
                 "(gathered weights are kept until the backward pass) or 3",
     .source = "torch/distributed/fsdp: ShardingStrategy has NO_SHARD, SHARD_GRAD_OP and "
               "FULL_SHARD; fully_shard has reshard_after_forward",
     .is_broken = &ShardsStatesOnly},
    {.frameworks = "torchtitan pytorch-fsdp",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "replicas cannot be combined with tensor parallelism or a pipeline",
     .source = "torchtitan/models/llama3/infra/parallelize.py: DDP has not supported > 1D "
               "parallelism; accelerate/parallelism_config.py: cannot be used with pure data "
               "parallelism",
     .is_broken = &ReplicatesBesideTensors},
    {.frameworks = "torchtitan pytorch-fsdp",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "ranks of context parallelism always shard the weights: zero_stage 2 or 3",
     .source = "torchtitan/distributed/parallel_dims.py and accelerate/parallelism_config.py: the "
               "mesh dp_shard_cp",
     .is_broken = &ReplicatesBesideContext},
    {.frameworks = "torchtitan pytorch-fsdp maxtext",
     .decided_by = Dimension::kZeroGroupSize,
     .field = "zero_group_size",
     .sentence = "a sharding group consists of whole groups of context parallelism",
     .source = "torchtitan/distributed/parallel_dims.py and accelerate/parallelism_config.py: the "
               "mesh dp_shard_cp; MaxText/configs/base.yml: mesh_axes",
     .is_broken = &ShardsOverPartOfContext},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kExpertTensorParallel,
     .field = "expert_tensor_parallel",
     .sentence = "experts are split as the other weights are, or whole with expert parallelism",
     .source = "torchtitan/distributed/parallel_dims.py: Currently we only support ETP=TP or ETP=1",
     .is_broken = &SplitsExpertsUnlikeTitan,
     .is_caution = true},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kZeroGroupSize,
     .field = "expert_parallel",
     .sentence = "expert parallelism must be a multiple of context parallelism (and of tensor "
                 "parallelism if experts are whole) and divide the ranks that shard the weights",
     .source = "torchtitan/distributed/parallel_dims.py: ep must be a multiple of cp, and "
               "dp_shard x cp of ep",
     .is_broken = &SpreadsExpertsUnlikeTitan},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kRecompute,
     .field = "recompute.layer_counts",
     .sentence = "all layers are recomputed or every n-th one",
     .source = "torchtitan/distributed/activation_checkpoint.py: selective_ac_option is op or a "
               "number",
     .is_broken = &RecomputesOtherThanEveryNthLayer},
    {.frameworks = "pytorch-fsdp deepspeed",
     .decided_by = Dimension::kExpertTensorParallel,
     .field = "expert_tensor_parallel",
     .sentence = "its tensor parallelism does not split experts",
     .source = "accelerate/parallelism_config.py; deepspeed/moe/layer.py",
     .is_broken = &SplitsExperts},
    {.frameworks = "pytorch-fsdp deepspeed",
     .decided_by = Dimension::kSequenceParallel,
     .field = "sequence_parallel",
     .sentence = "its tensor parallelism does not split the sequence",
     .source = "accelerate/parallelism_config.py: TorchTensorParallelConfig; "
               "deepspeed/module_inject/auto_tp.py",
     .is_broken = &SplitsSequence},
    {.frameworks = "torchtitan pytorch-fsdp",
     .decided_by = Dimension::kOptimizerOffload,
     .field = "optimizer_offload_ratio",
     .sentence =
         "optimizer states go to the host together with the weights, which a plan cannot say",
     .source = "torch/distributed/fsdp: CPUOffloadPolicy offloads parameters, gradients and states",
     .is_broken = &OffloadsAny},
    {.frameworks = "pytorch-fsdp",
     .decided_by = Dimension::kPipelineParallel,
     .field = "pipeline_parallel",
     .sentence = "it has no pipeline",
     .source = "accelerate/parallelism_config.py: ParallelismConfig has no such dimension",
     .is_broken = &HasPipeline},
    {.frameworks = "pytorch-fsdp",
     .decided_by = Dimension::kExpertParallel,
     .field = "expert_parallel",
     .sentence = "it does not spread experts over ranks",
     .source = "accelerate/parallelism_config.py: ParallelismConfig has no such dimension",
     .is_broken = &SpreadsAnyExperts},
    {.frameworks = "deepspeed megatron-deepspeed",
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "its pipeline runs 1f1b only",
     .source = "deepspeed/runtime/pipe/schedule.py: TrainSchedule",
     .is_broken = &HasOtherScheduleThan1f1b},
    {.frameworks = "deepspeed",
     .decided_by = Dimension::kPipelineParallel,
     .field = "tensor_parallel",
     .sentence = "its tensor parallelism (AutoTP) splits models without a pipeline",
     .source = "deepspeed/module_inject/auto_tp.py; with Megatron's own layers the framework is "
               "megatron-deepspeed",
     .is_broken = &SplitsWeightsInPipeline},
    {.frameworks = "deepspeed",
     .decided_by = Dimension::kPipelineParallel,
     .field = "context_parallel",
     .sentence = "its sequence parallelism is combined with data parallelism only",
     .source = "deepspeed/runtime/engine.py: a mesh of data_parallel and sequence_parallel",
     .is_broken = &ExchangesHeadsInMesh},
    {.frameworks = "deepspeed",
     .decided_by = Dimension::kRecompute,
     .field = "recompute",
     .sentence = "in a pipeline every layer is recomputed or none",
     .source = "deepspeed/runtime/pipe/module.py: activation_checkpoint_interval",
     .is_broken = &RecomputesPartsInPipeline},
    {.frameworks = "megatron-deepspeed",
     .decided_by = Dimension::kRecompute,
     .field = "recompute",
     .sentence = "in a pipeline every layer is recomputed or none",
     .source = "deepspeed/runtime/pipe/module.py: activation_checkpoint_interval",
     .is_broken = &RecomputesPartsInPipelineOffGaudi},
    {.frameworks = "megatron-deepspeed",
     .decided_by = Dimension::kRecompute,
     .field = "recompute",
     .sentence = "in a pipeline, selective recomputation needs the fork for Gaudi",
     .source = "HabanaAI/Megatron-DeepSpeed: scripts/run_llama.sh (HL_CKP_ACT=2)",
     .is_broken = &RecomputesPartsInPipelineOnGaudi,
     .is_caution = true},
    // Code of the user's own can recompute some layers, and measured runs did.
    {.frameworks = "pytorch-fsdp",
     .decided_by = Dimension::kRecompute,
     .field = "recompute",
     .sentence = "its settings recompute every layer or none",
     .source = "accelerate/utils/dataclasses.py: FullyShardedDataParallelPlugin has "
               "activation_checkpointing, true or false",
     .is_broken = &RecomputesSomeOnly,
     .is_caution = true},
    {.frameworks = "deepspeed",
     .decided_by = Dimension::kRecompute,
     .field = "recompute",
     .sentence = "its settings recompute every layer or none; which layers call "
                 "deepspeed.checkpointing is in the model's code",
     .source = "deepspeed/runtime/activation_checkpointing/config.py has no number of layers that "
               "are recomputed",
     .is_broken = &RecomputesSomeOnly,
     .is_caution = true},
    {.frameworks = "deepspeed",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "tensor parallelism (AutoTP) trains with zero_stage 0 to 2",
     .source = "deepspeed/runtime/engine.py: the compatibility between autotp and zero_stage = 3 "
               "has not been validated; deepspeedai/DeepSpeed#7389",
     .is_broken = &ShardsSplitWeights},
    {.frameworks = "deepspeed",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "its expert layers train with zero_stage 0 to 2",
     .source = "deepspeed/runtime/engine.py: MoE not supported with Stage 3",
     .is_broken = &ShardsSpreadExperts},
    {.frameworks = "deepspeed",
     .decided_by = Dimension::kZeroGroupSize,
     .field = "zero_group_size",
     .sentence = "smaller sharding groups need zero_stage 3",
     .source = "deepspeed/runtime/engine.py: MiCS and hierarchical partitions are read for stage 3",
     .is_broken = &ShardsLessThanWeightsInGroups},
    {.frameworks = "deepspeed megatron-deepspeed",
     .decided_by = Dimension::kOptimizerOffload,
     .field = "optimizer_offload_ratio",
     .sentence = "a part of the states is offloaded with zero_stage 3 only",
     .source = "deepspeed/runtime/zero/config.py: Partial offloading only supported for ZeRO Stage "
               "3",
     .is_broken = &OffloadsPartOfStates},
};

}  // namespace

std::span<const LegalityRule> PyTorchRules() { return kPyTorchRules; }

}  // namespace meshwright

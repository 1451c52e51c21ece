#include "estimator/legality/rule_tables.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

using Problem = EstimatorProblem;
using Plan = ParallelPlan;

bool SplitsKeyHeads(const Problem& problem, const Plan& plan) {
  return !problem.model.mla.has_value() && problem.model.kv_head_count % plan.tensor_parallel != 0;
}

bool ShardsStatesOnly(const Problem&, const Plan& plan) { return plan.zero_stage == 1; }

bool LeavesSequenceWhole(const Problem&, const Plan& plan) {
  return plan.tensor_parallel > 1 && !plan.sequence_parallel;
}

bool ShardsSplitWeights(const Problem&, const Plan& plan) {
  return plan.tensor_parallel > 1 && plan.zero_stage == 3;
}

bool ShardsGradientsInPipeline(const Problem&, const Plan& plan) {
  return plan.pipeline_parallel > 1 && plan.zero_stage >= 2;
}

constexpr LegalityRule kRules[] = {
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kTensorParallel,
     .field = "tensor_parallel",
     .sentence = "tensor parallelism must divide the key-value heads",
     .source = "pytorch/torchtitan#2577",
     .is_broken = &SplitsKeyHeads},
    {.frameworks = "torchtitan",
     .decided_by = Dimension::kSequenceParallel,
     .field = "sequence_parallel",
     .sentence = "tensor parallelism always splits the sequence too",
     .source = "torchtitan/models/llama3/infra/parallelize.py: SequenceParallel of the norms in "
               "the plan of every layer",
     .is_broken = &LeavesSequenceWhole},
    {.frameworks = "torchtitan pytorch-fsdp",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "parameters are sharded with the optimizer states: zero_stage 0 (replicas), 2 "
                 "(gathered weights are kept until the backward pass) or 3",
     .source = "torch.distributed.fsdp: ShardingStrategy has NO_SHARD, SHARD_GRAD_OP and "
               "FULL_SHARD; fully_shard has reshard_after_forward",
     .is_broken = &ShardsStatesOnly},
    {.frameworks = "deepspeed",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "tensor parallelism (AutoTP) trains with ZeRO 0 to 2",
     .source = "deepspeedai/DeepSpeed#7389",
     .is_broken = &ShardsSplitWeights},
    {.frameworks = "deepspeed megatron-deepspeed",
     .decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "a pipeline runs with ZeRO 0 and 1",
     .source = "deepspeed/runtime/pipe/engine.py: ZeRO-2 and ZeRO-3 are incompatible with pipeline "
               "parallelism",
     .is_broken = &ShardsGradientsInPipeline},
};

}  // namespace

std::span<const LegalityRule> PyTorchRules() { return kRules; }

}  // namespace meshwright

#include "estimator/legality/legality_rule.h"
#include "estimator/legality/rule_tables.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"
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

constexpr LegalityRule kOtherRules[] = {
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
    {.frameworks = "maxtext",
     .decided_by = Dimension::kMicroBatchSize,
     .field = "micro_batch_size",
     .sentence = "the stages must divide the micro-batches",
     .source = "MaxText/configs/types.py: The number of microbatches must be divisible by the "
               "number of stages",
     .is_broken = &HasUnevenMicroBatches},
    {.decided_by = Dimension::kSequenceParallel,
     .field = "sequence_parallel",
     .sentence = "experts under tensor parallelism need sequence parallelism",
     .source = "experts_need_sequence_parallel of the framework profile; "
               "megatron/core/transformer/moe/moe_layer.py raises an error in training",
     .is_broken = &LacksSequenceParallelism,
     .is_caution = true},
    {.decided_by = Dimension::kRankOrder,
     .field = "rank_order",
     .sentence = "with pipelines inside data parallelism, expert x expert_tensor must be tensor x "
                 "context",
     .source = "experts_need_outer_pipeline of the framework profile",
     .is_broken = &NumbersExpertsOtherwise},
    {.decided_by = Dimension::kZeroStage,
     .field = "zero_stage",
     .sentence = "this stage of ZeRO cannot be combined with a pipeline",
     .source = "largest_zero_stage_with_pipeline of the framework profile",
     .is_broken = &ShardsTooMuchInPipeline},
};

}  // namespace

bool SplitsKeyHeads(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return !problem.model.mla.has_value() && problem.model.kv_head_count % plan.tensor_parallel != 0;
}

std::span<const LegalityRule> OtherRules() { return kOtherRules; }

}  // namespace meshwright

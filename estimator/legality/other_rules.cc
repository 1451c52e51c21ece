#include "estimator/legality/rule_tables.h"
#include "search_space/spec/model.h"

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

constexpr LegalityRule kRules[] = {
    {.decided_by = Dimension::kSequenceParallel,
     .field = "sequence_parallel",
     .sentence = "experts under tensor parallelism need sequence parallelism",
     .source = "experts_need_sequence_parallel of the framework profile",
     .is_broken = &LacksSequenceParallelism},
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

std::span<const LegalityRule> OtherRules() { return kRules; }

}  // namespace meshwright

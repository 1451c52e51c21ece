#include <algorithm>
#include <span>
#include <vector>

#include "estimator/layer/layer_split.h"
#include "estimator/legality/rule_tables.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

bool HasOtherScheduleThanFlagScales(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return HasOtherSchedule(problem, plan) && plan.schedule != Schedule::kDualpipeV;
}

bool IsFolded(const EstimatorProblem& /*problem*/, const ParallelPlan& plan) {
  return plan.schedule == Schedule::kDualpipeV;
}

bool FoldsWithoutSpreadExperts(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return plan.schedule == Schedule::kDualpipeV &&
         (!problem.model.moe.has_value() || plan.expert_parallel == 1);
}

bool FoldsSharedEmbeddings(const EstimatorProblem& problem, const ParallelPlan& plan) {
  return plan.schedule == Schedule::kDualpipeV &&
         (problem.model.tied_embeddings || problem.model.mtp_layer_count > 0);
}

// Each stage holds a part of the way there and one of the way back.
bool FoldsOddStages(const EstimatorProblem& problem, const ParallelPlan& plan) {
  if (plan.schedule != Schedule::kDualpipeV) return false;
  const std::vector<int> layers = LayersPerStage(plan, problem.model, problem.profile);
  return std::ranges::any_of(layers, [](int count) { return count % 2 != 0; });
}

// The rules that FlagScale does not share with the Megatron-Core that it runs.
constexpr LegalityRule kFlagScaleRules[] = {
    {.frameworks = "flagscale",
     .versions = {.before = "0.9"},
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "it runs 1f1b and interleaved_1f1b only",
     .source = "megatron/core/pipeline_parallel/schedules.py: get_forward_backward_func",
     .is_broken = &HasOtherSchedule},
    {.frameworks = "flagscale",
     .versions = {.since = "0.9"},
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "it runs 1f1b, interleaved_1f1b and dualpipe_v only",
     .source =
         "megatron/core/pipeline_parallel/schedules.py of its tree, and dualpipev_schedules.py "
         "beside it",
     .is_broken = &HasOtherScheduleThanFlagScales},
    {.frameworks = "flagscale",
     .versions = {.since = "0.9"},
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "dualpipe_v is in its source, and no release note says since which version",
     .source = "dualpipev_schedules.py of its tree",
     .is_broken = &IsFolded,
     .is_caution = true},
    {.frameworks = "flagscale",
     .versions = {.since = "0.9"},
     .decided_by = Dimension::kSchedule,
     .field = "expert_parallel",
     .sentence = "dualpipe_v is for experts that are spread over ranks",
     .source = "FlagScale's arguments of training: DualPipeV can only be used for pipeline "
               "scheduling in MoE models, thus requiring both pipeline parallelism and expert "
               "parallelism",
     .is_broken = &FoldsWithoutSpreadExperts},
    {.frameworks = "flagscale",
     .versions = {.since = "0.9"},
     .decided_by = Dimension::kSchedule,
     .field = "schedule",
     .sentence = "dualpipe_v needs untied embeddings and no multi-token prediction",
     .source =
         "FlagScale's arguments of training: DualPipeV is not supported with shared embedding "
         "and lm head, nor with multi-token-predictor currently",
     .is_broken = &FoldsSharedEmbeddings},
    {.frameworks = "flagscale",
     .versions = {.since = "0.9"},
     .decided_by = Dimension::kFirstStage,
     .field = "layers_per_stage",
     .sentence = "dualpipe_v needs an even number of layers in each stage",
     .source = "FlagScale's arguments of training: each pipeline stage must contain an even number "
               "of Transformer layers, so that DualPipeV can split it into two model chunks",
     .is_broken = &FoldsOddStages},
};

}  // namespace

std::span<const LegalityRule> FlagScaleRules() { return kFlagScaleRules; }

}  // namespace meshwright

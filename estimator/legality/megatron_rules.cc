#include <algorithm>

#include "estimator/legality/rule_tables.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

using Problem = EstimatorProblem;
using Plan = ParallelPlan;

constexpr std::string_view kBuiltOnCore = "megatron-core flagscale mindspeed";

bool SplitsKeyHeads(const Problem& problem, const Plan& plan) {
  return !problem.model.mla.has_value() && problem.model.kv_head_count % plan.tensor_parallel != 0;
}

bool HasTwoSynchronousStages(const Problem& problem, const Plan& plan) {
  return plan.schedule == Schedule::kInterleaved1f1b && plan.pipeline_parallel == 2 &&
         !problem.workload.overlap.pipeline_p2p;
}

// The embedding and the loss may count as a layer each of the first and the last stage.
bool HasUnequalChunks(const Problem&, const Plan& plan) {
  const int v = plan.virtual_pipeline;
  const std::vector<int>& layers = plan.layers_per_stage;
  if (v == 1 || layers.empty()) return false;
  const auto is_short = [&](int count) { return count % v != 0; };
  if (std::ranges::none_of(layers, is_short)) return false;
  std::vector<int> counted = layers;
  const int most = *std::ranges::max_element(layers);
  for (int* end : {&counted.front(), &counted.back()}) *end += *end == most - 1 ? 1 : 0;
  return std::ranges::any_of(counted, [&](int count) { return count != most; }) || most % v != 0;
}

bool HasHalfPrecisionExperts(const Problem& problem, const Plan& plan) {
  return problem.workload.precision == Precision::kFp16 && problem.model.moe.has_value() &&
         plan.expert_parallel > 1;
}

constexpr LegalityRule kRules[] = {
    {.frameworks = "megatron-core",
     .versions = {.before = "0.16"},
     .decided_by = Dimension::kTensorParallel,
     .field = "tensor_parallel",
     .sentence = "tensor parallelism must divide the key-value heads",
     .source = "megatron/core/transformer/transformer_config.py: num_query_groups must be a "
               "multiple of tensor_model_parallel_size; modelscope/ms-swift#8219",
     .is_broken = &SplitsKeyHeads},
    {.frameworks = "flagscale mindspeed",
     .decided_by = Dimension::kTensorParallel,
     .field = "tensor_parallel",
     .sentence = "tensor parallelism must divide the key-value heads",
     .source = "megatron/core/transformer/transformer_config.py, on which it is built: "
               "num_query_groups must be a multiple of tensor_model_parallel_size",
     .is_broken = &SplitsKeyHeads},
    {.frameworks = kBuiltOnCore,
     .decided_by = Dimension::kExpertParallel,
     .field = "expert_parallel",
     .sentence = "experts are not spread over ranks in fp16",
     .source = "megatron/training/arguments.py: Expert parallelism is not supported with fp16 "
               "training",
     .is_broken = &HasHalfPrecisionExperts},
    {.frameworks = kBuiltOnCore,
     .decided_by = Dimension::kSchedule,
     .field = "pipeline_parallel",
     .sentence = "two interleaved stages need overlapped sends (workload.overlap.pipeline_p2p)",
     .source = "megatron/training/arguments.py: pipeline-model-parallel size should be greater "
               "than 2 with interleaved schedule without overlapped p2p communication",
     .is_broken = &HasTwoSynchronousStages},
    {.frameworks = kBuiltOnCore,
     .decided_by = Dimension::kFirstStage,
     .field = "virtual_pipeline",
     .sentence = "the virtual stages must hold equal numbers of layers; the embedding and the loss "
                 "may count as a layer each",
     .source = "megatron/training/arguments.py: number of layers should be divisible by the "
               "virtual pipeline stages; --account-for-embedding-in-pipeline-split",
     .is_broken = &HasUnequalChunks},
};

}  // namespace

std::span<const LegalityRule> MegatronRules() { return kRules; }

}  // namespace meshwright

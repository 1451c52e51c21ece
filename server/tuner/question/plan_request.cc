#include <fmt/format.h>

#include <utility>

#include "estimator/layer/layer_split.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

class PlanDefaults {
 public:
  PlanDefaults(std::vector<AppliedDefault>& applied, std::string_view prefix)
      : applied_(applied), prefix_(prefix) {}

  template <typename T>
  T Take(std::string_view field, const std::optional<T>& stated, T fallback,
         std::string_view source = "plan default") {
    if (stated.has_value()) return *stated;
    Note(field, fmt::format("{}", fallback), source);
    return fallback;
  }

  void Note(std::string_view field, std::string value, std::string_view source) {
    applied_.push_back({.field = fmt::format("{}.{}", prefix_, field),
                        .value = std::move(value),
                        .source = std::string(source)});
  }

 private:
  std::vector<AppliedDefault>& applied_;
  std::string_view prefix_;
};

void TakeSizes(const PlanRequest& stated, const Problem& problem, PlanDefaults& defaults,
               ParallelPlan& plan) {
  plan.tensor_parallel = defaults.Take("tensor_parallel", stated.tensor_parallel, 1);
  const int stages = stated.stages.empty() ? 1 : static_cast<int>(stated.stages.size());
  plan.pipeline_parallel = defaults.Take("pipeline_parallel", stated.pipeline_parallel, stages);
  plan.context_parallel = defaults.Take("context_parallel", stated.context_parallel, 1);
  const std::int64_t divisor =
      std::int64_t{plan.tensor_parallel} * plan.pipeline_parallel * plan.context_parallel;
  const auto rest =
      static_cast<int>(divisor > 0 ? DeviceCount(problem.cluster) / divisor : std::int64_t{1});
  plan.data_parallel = defaults.Take("data_parallel", stated.data_parallel, rest,
                                     "devices / (tensor x pipeline x context)");
  plan.sequence_parallel = defaults.Take("sequence_parallel", stated.sequence_parallel, false);
  plan.virtual_pipeline = defaults.Take("virtual_pipeline", stated.virtual_pipeline, 1);
  plan.expert_parallel = defaults.Take("expert_parallel", stated.expert_parallel, 1);
  plan.expert_tensor_parallel =
      defaults.Take("expert_tensor_parallel", stated.expert_tensor_parallel, 1);
  plan.micro_batch_size = defaults.Take("micro_batch_size", stated.micro_batch_size, 1);
  plan.zero_stage = defaults.Take("zero_stage", stated.zero_stage, 0);
  plan.zero_group_size = defaults.Take("zero_group_size", stated.zero_group_size, 0);
  plan.optimizer_offload_ratio =
      defaults.Take("optimizer_offload_ratio", stated.optimizer_offload_ratio, 0.0);
  plan.activation_offload_ratio =
      defaults.Take("activation_offload_ratio", stated.activation_offload_ratio, 0.0);
  plan.whole_weights_ratio = stated.whole_weights_ratio.value_or(0.0);
}

}  // namespace

absl::StatusOr<ResolvedPlan> ResolvePlan(const PlanRequest& stated, const Problem& problem,
                                         std::string_view prefix) {
  ResolvedPlan resolved;
  ParallelPlan& plan = resolved.plan;
  PlanDefaults defaults(resolved.applied_defaults, prefix);
  TakeSizes(stated, problem, defaults, plan);
  const FrameworkProfile& profile = problem.profile;
  const std::string source = "framework profile " + profile.name;
  plan.context_parallel_kind =
      stated.context_parallel_kind.value_or(profile.context_parallel_kinds.front());
  if (!stated.context_parallel_kind.has_value() && plan.context_parallel > 1) {
    defaults.Note("context_parallel_kind", std::string(Word(plan.context_parallel_kind)), source);
  }
  plan.rank_order = stated.rank_order.value_or(profile.rank_orders.front());
  if (!stated.rank_order.has_value() && plan.pipeline_parallel > 1 && plan.data_parallel > 1) {
    defaults.Note("rank_order", std::string(Word(plan.rank_order)), source);
  }
  const Schedule usual = plan.virtual_pipeline > 1 ? Schedule::kInterleaved1f1b : Schedule::k1f1b;
  plan.schedule = stated.schedule.value_or(usual);
  if (!stated.schedule.has_value()) {
    defaults.Note("schedule", std::string(Word(usual)), "plan default");
  }
  plan.recompute = stated.recompute.value_or(RecomputePlan{});
  if (!stated.recompute.has_value()) {
    defaults.Note("recompute.granularity", "none", "plan default");
  }
  const bool is_selective = plan.recompute.granularity == RecomputeGranularity::kSelective ||
                            !plan.recompute.selective_layer_counts.empty();
  if (is_selective && plan.recompute.modules.empty()) {
    defaults.Note("recompute.modules", fmt::format("{}", fmt::join(profile.selective_modules, " ")),
                  source);
  }
  plan.layers_per_stage = stated.layers_per_stage;
  plan.stages = stated.stages;
  const std::vector<FieldViolation> violations = CheckPlan(plan, problem, prefix);
  if (!violations.empty()) return InvalidFields(violations);
  if (plan.layers_per_stage.empty() && plan.stages.empty()) {
    plan = WithStatedSplit(std::move(plan), problem.model, profile);
    if (plan.pipeline_parallel > 1) {
      defaults.Note("layers_per_stage", fmt::format("{}", fmt::join(plan.layers_per_stage, " ")),
                    source);
    }
  }
  return resolved;
}

// Whole weights are stated only where there are any.
PlanRequest StatedPlan(const ParallelPlan& plan) {
  PlanRequest stated = {.tensor_parallel = plan.tensor_parallel,
                        .sequence_parallel = plan.sequence_parallel,
                        .pipeline_parallel = plan.pipeline_parallel,
                        .virtual_pipeline = plan.virtual_pipeline,
                        .data_parallel = plan.data_parallel,
                        .context_parallel = plan.context_parallel,
                        .context_parallel_kind = plan.context_parallel_kind,
                        .expert_parallel = plan.expert_parallel,
                        .expert_tensor_parallel = plan.expert_tensor_parallel,
                        .micro_batch_size = plan.micro_batch_size,
                        .zero_stage = plan.zero_stage,
                        .zero_group_size = plan.zero_group_size,
                        .schedule = plan.schedule,
                        .recompute = plan.recompute,
                        .layers_per_stage = plan.layers_per_stage,
                        .optimizer_offload_ratio = plan.optimizer_offload_ratio,
                        .stages = plan.stages,
                        .rank_order = plan.rank_order,
                        .activation_offload_ratio = plan.activation_offload_ratio};
  if (plan.whole_weights_ratio != 0) stated.whole_weights_ratio = plan.whole_weights_ratio;
  return stated;
}

}  // namespace meshwright

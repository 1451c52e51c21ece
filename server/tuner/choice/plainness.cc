#include "server/tuner/choice/plainness.h"

#include <bit>
#include <type_traits>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan_fields.h"

namespace meshwright {

namespace {

// Two of the public runs of full models that the estimates are held against split shorter
// sequences: Qwen2-57B of MindSpeed-LLM, and a fine-tuning run of Megatron-Bridge. All others have
// as many tokens.
constexpr int kShortestSplitSequence = 8192;

}  // namespace

std::vector<std::string_view> UnmeasuredFeatures(const ParallelPlan& plan, int sequence_length) {
  std::vector<std::string_view> features;
  const auto add = [&](std::string_view name, bool has) {
    if (has) features.push_back(name);
  };
  add("optimizer_offload_ratio", plan.optimizer_offload_ratio > 0);
  add("activation_offload_ratio", plan.activation_offload_ratio > 0);
  add("whole_weights_ratio", plan.whole_weights_ratio > 0);
  add("recompute.selective_layer_counts", !plan.recompute.selective_layer_counts.empty());
  add("rank_order", plan.rank_order != RankOrder::kTpCpEpDpPp);
  const bool is_common = plan.schedule == Schedule::kGpipe || plan.schedule == Schedule::k1f1b ||
                         plan.schedule == Schedule::kInterleaved1f1b;
  add("schedule", !is_common);
  add("context_parallel", plan.context_parallel > 1 && sequence_length < kShortestSplitSequence);
  add("context_parallel_kind",
      plan.context_parallel > 1 && plan.context_parallel_kind == ContextParallelKind::kHybrid);
  return features;
}

int Unusualness(const ParallelPlan& plan) {
  const bool keeps_sequence = plan.tensor_parallel > 1 && !plan.sequence_parallel;
  const auto doublings =
      static_cast<int>(std::bit_width(static_cast<unsigned>(plan.virtual_pipeline)) - 1);
  return (keeps_sequence ? 1 : 0) + doublings;
}

int DistanceOf(const ParallelPlan& a, const ParallelPlan& b) {
  int count = 0;
  ForEachRow(kPlanFields,
             [&](const auto& field) { count += a.*field.member == b.*field.member ? 0 : 1; });
  return count;
}

}  // namespace meshwright

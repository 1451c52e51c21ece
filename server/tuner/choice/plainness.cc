#include "server/tuner/choice/plainness.h"

#include <bit>
#include <cmath>
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
  add("offload of the optimizer", plan.optimizer_offload_ratio > 0);
  add("offload of activations", plan.activation_offload_ratio > 0);
  add("weights that stay gathered", plan.whole_weights_ratio > 0);
  add("selective recomputation in some of the layers",
      !plan.recompute.selective_layer_counts.empty());
  add("an unusual order of ranks", plan.rank_order != RankOrder::kTpCpEpDpPp);
  const bool is_common = plan.schedule == Schedule::kGpipe || plan.schedule == Schedule::k1f1b ||
                         plan.schedule == Schedule::kInterleaved1f1b;
  add("an unusual pipeline schedule", !is_common);
  add("context parallelism on short sequences",
      plan.context_parallel > 1 && sequence_length < kShortestSplitSequence);
  add("hybrid context parallelism",
      plan.context_parallel > 1 && plan.context_parallel_kind == ContextParallelKind::kHybrid);
  return features;
}

int Unusualness(const ParallelPlan& plan) {
  const bool keeps_sequence = plan.tensor_parallel > 1 && !plan.sequence_parallel;
  const auto stages = static_cast<unsigned>(plan.pipeline_parallel * plan.virtual_pipeline);
  return (keeps_sequence ? 1 : 0) + static_cast<int>(std::bit_width(stages) - 1);
}

double DistanceOf(const ParallelPlan& a, const ParallelPlan& b) {
  double distance = 0;
  ForEachRow(kPlanFields, [&](const auto& field) {
    const auto& first = a.*field.member;
    const auto& second = b.*field.member;
    if (first == second) return;
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(first)>, int>) {
      if (first > 0 && second > 0) {
        distance += std::abs(std::log2(static_cast<double>(first) / second));
        return;
      }
    }
    distance += 1;
  });
  return distance;
}

}  // namespace meshwright

#include "server/tuner/choice/plainness.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>

#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan_fields.h"

namespace meshwright {

namespace {

// Two of the public runs of full models that the estimates are held against split shorter
// sequences: Qwen2-57B of MindSpeed-LLM, and a fine-tuning run of Megatron-Bridge. All others have
// as many tokens.
constexpr int kShortestSplitSequence = 8192;

bool IsCommon(Schedule schedule) {
  return schedule == Schedule::kGpipe || schedule == Schedule::k1f1b ||
         schedule == Schedule::kInterleaved1f1b;
}

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
  add("an unusual pipeline schedule", !IsCommon(plan.schedule));
  add("context parallelism on short sequences",
      plan.context_parallel > 1 && sequence_length < kShortestSplitSequence);
  add("replicas that differ", !plan.replica_groups.empty());
  add("hybrid context parallelism",
      plan.context_parallel > 1 && plan.context_parallel_kind == ContextParallelKind::kHybrid);
  return features;
}

SpaceOptions WithoutUnmeasured(SpaceOptions space, int sequence_length) {
  const auto is_open = [&](Dimension dimension) { return !space.chosen.contains(dimension); };
  // Keeps some of a dimension's values, or all of them if none would be left.
  const auto keep = [&](Dimension dimension, auto& values, const auto& is_kept) {
    if (!is_open(dimension) || std::ranges::none_of(values, is_kept)) return;
    std::erase_if(values, [&](const auto& value) { return !is_kept(value); });
  };
  const auto is_zero = [](int percent) { return percent == 0; };
  keep(Dimension::kOptimizerOffload, space.offload_percents, is_zero);
  keep(Dimension::kActivationOffload, space.activation_offload_percents, is_zero);
  keep(Dimension::kWholeWeights, space.whole_weights_percents, is_zero);
  keep(Dimension::kRankOrder, space.rank_orders,
       [](RankOrder order) { return order == RankOrder::kTpCpEpDpPp; });
  keep(Dimension::kSchedule, space.schedules, IsCommon);
  keep(Dimension::kContextParallelKind, space.context_parallel_kinds,
       [](ContextParallelKind kind) { return kind != ContextParallelKind::kHybrid; });
  if (is_open(Dimension::kRecompute)) space.mixes_recompute = false;
  if (is_open(Dimension::kContextParallel) && sequence_length < kShortestSplitSequence) {
    space.chosen[Dimension::kContextParallel] = {.values = {1}};
  }
  return space;
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

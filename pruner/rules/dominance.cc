#include <algorithm>
#include <vector>

#include "estimator/model/memory.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/problem/estimator_problem.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/rules.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {

namespace {

// Returns true if the space also has the plan without sharding and otherwise unchanged. A user may
// have excluded zero_stage 0, or fixed other dimensions.
bool HasUnsharded(const SearchSpace& space, ParallelPlan plan) {
  constexpr Dimension kShardingDimensions[] = {Dimension::kZeroStage, Dimension::kZeroGroupSize,
                                               Dimension::kWholeWeights,
                                               Dimension::kOptimizerOffload};
  for (const Dimension dimension : kShardingDimensions) {
    const std::vector<int> values = space.Values(dimension, plan);
    if (std::ranges::find(values, 0) == values.end()) return false;
    space.Set(dimension, 0, plan);
  }
  return true;
}

}  // namespace

// Rejects plans that are only another notation of a plan in the space: they shard states over a
// single rank.
std::optional<Rejection> CheckEqualPlans(const PruneContext& context, const ParallelPlan& plan,
                                         int depth) {
  const EstimatorProblem& problem = context.problem;
  // Only a sharded optimizer can be offloaded to the host.
  const bool is_decided = JustSet(Dimension::kOptimizerOffload, depth);
  if (!is_decided || plan.zero_stage == 0 || plan.optimizer_offload_ratio > 0) return std::nullopt;
  // The two copies of a stage in a bidirectional schedule share its states too.
  const int copies = LayoutOf(plan.schedule, plan.pipeline_parallel, 1).directions();
  const int ranks = copies * plan.data_parallel * plan.context_parallel;
  if (ranks > 1) return std::nullopt;
  // A sharded optimizer keeps no 16-bit weights beside 8-bit ones, even if it has only one rank.
  if (BytesPerParameter(problem.workload, problem.profile).fp8_copies > 0) return std::nullopt;
  // Experts may still be shared by more than one rank.
  const int expert_ranks =
      problem.model.moe.has_value()
          ? plan.tensor_parallel / (plan.expert_parallel * plan.expert_tensor_parallel)
          : 1;
  if (expert_ranks > 1) return std::nullopt;
  if (!HasUnsharded(context.space, plan)) return std::nullopt;
  return Rejection{.rule = kDominanceRule,
                   .reason = "zero_stage > 0 shards nothing over one rank",
                   .value = static_cast<double>(plan.zero_stage),
                   .limit = 0};
}

}  // namespace meshwright

#include <optional>

#include "estimator/model/plan_bounds.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/rules.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Rejects a prefix if even the least memory of all plans below it exceeds that of the device.
// Nearly all plans that do not fit are found by their sizes; the others once it is known how their
// states are sharded and which part of these leaves the device.
std::optional<Rejection> CheckMemory(const PruneContext& context, const ParallelPlan& plan,
                                     int depth) {
  const bool are_sizes = JustSet(Dimension::kRankOrder, depth);
  const bool is_zero = JustSet(Dimension::kZeroStage, depth);
  const bool is_offload = JustSet(Dimension::kOptimizerOffload, depth);
  if (context.model == nullptr || !(are_sizes || is_zero || is_offload)) return std::nullopt;
  const PlanBounds bounds(*context.model);
  MostOffloaded most = context.space.MostOffloadedBelow(plan);
  if (is_offload) most.optimizer = plan.optimizer_offload_ratio;
  const Bytes least =
      are_sizes ? bounds.LeastMemoryBelow(plan, most) : bounds.LeastMemoryOfZero(plan, most);
  const Bytes capacity = context.problem.cluster.pools.front().memory_capacity;
  if (least <= capacity || context.MayBeNearest(least)) return std::nullopt;
  return Rejection{.rule = kMemoryRule,
                   .reason = "no plan of these sizes fits, whatever is recomputed or offloaded",
                   .value = static_cast<double>(least.count),
                   .limit = static_cast<double>(capacity.count)};
}

std::optional<Rejection> CheckPlanMemory(const PruneContext& context, const PricedPlan& plan) {
  if (plan.memory.fits_device) return std::nullopt;
  const Bytes capacity = context.problem.cluster.pools.front().memory_capacity;
  return Rejection{.rule = kMemoryRule,
                   .reason = "does not fit by the memory model",
                   .value = static_cast<double>(plan.memory.reserved_memory.count),
                   .limit = static_cast<double>(capacity.count)};
}

}  // namespace meshwright

#include <optional>

#include "estimator/model/plan_bounds.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/rules.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Rejects a prefix if even the least memory of all plans below it exceeds that of the device.
std::optional<Rejection> CheckMemory(const PruneContext& context, const ParallelPlan& plan,
                                     int depth) {
  if (context.model == nullptr || !JustSet(Dimension::kRankOrder, depth)) return std::nullopt;
  const Bytes least =
      PlanBounds(*context.model).LeastMemoryBelow(plan, context.space.MostOffloadedBelow(plan));
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

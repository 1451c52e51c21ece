#include <optional>

#include "estimator/model/plan_bounds.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/rules.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

// Returns a lower bound on the time of all plans below the prefix; nullopt if no bound is known.
std::optional<Seconds> LeastTime(const PruneContext& context, const ParallelPlan& plan, int depth) {
  if (JustSet(Dimension::kMicroBatchSize, depth)) {
    return PlanBounds(*context.model).LeastTimeOfAnyExperts(plan);
  }
  if (JustSet(Dimension::kRankOrder, depth)) return PlanBounds(*context.model).LeastTimeBelow(plan);
  if (JustSet(Dimension::kFirstStage, depth) &&
      context.problem.profile.gradient_accumulation_is_fused) {
    return PlanBounds(*context.model).LeastTimeOfPipeline(plan);
  }
  return std::nullopt;
}

}  // namespace

std::optional<Rejection> CheckBound(const PruneContext& context, const ParallelPlan& plan,
                                    int depth) {
  if (context.model == nullptr || !context.slowest_useful.has_value()) return std::nullopt;
  const std::optional<Seconds> least = LeastTime(context, plan, depth);
  if (!least.has_value() || *least <= *context.slowest_useful) return std::nullopt;
  return Rejection{.rule = kBoundRule,
                   .reason = "every plan of these sizes is slower than the plans already found",
                   .value = least->count(),
                   .limit = context.slowest_useful->count()};
}

}  // namespace meshwright

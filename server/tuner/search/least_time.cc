#include "server/tuner/search/least_time.h"

#include <algorithm>

#include "estimator/model/plan_bounds.h"
#include "pruner/pruner.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/plan.h"

namespace meshwright {

std::optional<Seconds> LeastTimeOf(const SearchSpace& space, const ParallelPlan& prefix, int depth,
                                   const std::vector<std::string>& disabled_rules,
                                   AnalyticModel& model) {
  constexpr int kDepth = static_cast<int>(Dimension::kMicroBatchSize) + 1;
  const Pruning pruning(disabled_rules);
  std::optional<Seconds> least;
  for (PlanWalk walk(space, prefix, depth); walk.Next();) {
    const bool is_cut = pruning.IsCutBySizes({.problem = model.problem(), .space = space},
                                             walk.plan(), walk.depth());
    if (is_cut || walk.depth() == kDepth) walk.Skip();
    if (is_cut || walk.depth() < kDepth) continue;
    const std::optional<Seconds> own = PlanBounds(model).LeastTimeOfAnyExperts(walk.plan());
    if (!own.has_value()) return std::nullopt;
    least = std::min(least.value_or(*own), *own);
  }
  return least;
}

}  // namespace meshwright

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// What no plan that shares the first `depth` dimensions of `prefix` is below: the least even share
// of all work, over the parallel sizes and micro-batches that are left
// (PlanBounds::LeastTimeOfAnyExperts). `depth` is at most that of the micro-batch. Nothing when
// there is no legal plan, or where the framework's costs leave no such bound. `disabled_rules` of
// the pruner do not say what is legal.
std::optional<Seconds> LeastTimeOf(const SearchSpace& space, const ParallelPlan& prefix, int depth,
                                   const std::vector<std::string>& disabled_rules,
                                   AnalyticModel& model);

}  // namespace meshwright

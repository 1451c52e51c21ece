#pragma once

#include <optional>
#include <string>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns a lower bound of the step times of all plans that share the first `depth` dimensions of
// `prefix`: the least even share of all work, over the parallel sizes and micro-batches that are
// left (PlanBounds::LeastTimeOfAnyExperts). `depth` is at most that of the micro-batch. Returns
// nullopt if there is no legal plan, or if the framework's costs allow no such bound. The pruner's
// `disabled_rules` do not decide what is legal.
std::optional<Seconds> LeastTimeOf(const SearchSpace& space, const ParallelPlan& prefix, int depth,
                                   const std::vector<std::string>& disabled_rules,
                                   AnalyticModel& model);

}  // namespace meshwright

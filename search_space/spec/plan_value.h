#pragma once

#include <string>
#include <string_view>

#include "search_space/spec/plan.h"

namespace meshwright {

// Returns the value of a plan's field, "4", "true", "1f1b", "[20, 20]"; `name` is that of
// kPlanFields, or "recompute." and that of kRecomputeFields. Returns "stated" for stages.
std::string PlanValue(const ParallelPlan& plan, std::string_view name);

}  // namespace meshwright

#pragma once

#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Returns the plan with one form for what is the same: sizes without an effect are their defaults,
// and the layers of stages and their recomputation are stated.
ParallelPlan ExpressedPlan(const ParallelPlan& plan, const Problem& problem);

}  // namespace meshwright

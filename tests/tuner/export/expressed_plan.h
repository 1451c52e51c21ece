#pragma once

#include <string>

#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Returns the plan with one form for what is the same: sizes without an effect are their defaults,
// and the layers of stages and their recomputation are stated. Fields that are stated by the
// training script instead of the framework's file are their defaults too.
ParallelPlan ExpressedPlan(const std::string& framework, const ParallelPlan& plan,
                           const Problem& problem);

}  // namespace meshwright

#pragma once

#include "estimator/model/stage_runs.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/units.h"

namespace meshwright {

// Returns the time of the slowest message between neighbouring stages: an activation forward, or
// its gradient back.
Seconds SlowestMessage(const StageRuns& stages, const EstimatorProblem& problem);

}  // namespace meshwright

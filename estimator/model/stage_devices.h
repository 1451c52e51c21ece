#pragma once

#include "estimator/model/stage.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Both leave `unit` and `states` to their caller.

// Returns the devices of a plan for one pool.
StageDevices BareDevices(const ParallelPlan& plan, const EstimatorProblem& problem);
// Returns the devices of one stage of a plan whose stages name their pools.
StageDevices BareDevices(const ParallelPlan& plan, const StagePlan& stage,
                         const EstimatorProblem& problem);

}  // namespace meshwright

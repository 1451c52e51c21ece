#pragma once

#include <cstddef>
#include <vector>

#include "estimator/model/stage.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns, for each stage of a replica of a group, the ring in which its gradients are added up
// with those of all other replicas: docs/cost_model/data_parallel.md "Replicas that differ". All
// hops of a ring work at once, so that the slowest sets its pace.
std::vector<ReplicaRing> RingsOf(const ParallelPlan& plan, std::size_t group,
                                 const EstimatorProblem& problem);

}  // namespace meshwright

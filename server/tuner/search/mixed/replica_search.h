#pragma once

#include <vector>

#include "estimator/model/analytic_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/mixed/replica_space.h"
#include "server/tuner/search/mixed/set_search.h"

namespace meshwright {

// Finds the plan with the least step time among those in which each pool of the set has replicas of
// its own: bounds the combinations of the groups' degrees, opens the most promising first, shares
// out the batch in whole micro-batches, and lets the estimator decide. All referents outlive the
// call.
SetFound SearchReplicas(const Problem& problem, ReplicaSpace& space, const MixedSpace& mixed,
                        AnalyticModel& model, const std::vector<int>& pools,
                        const SetLimits& limits);

}  // namespace meshwright

#pragma once

#include <optional>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/mixed/replica_space.h"
#include "server/tuner/search/mixed/set_search.h"

namespace meshwright {

// Finds the plan with the least step time among those in which each pool of the set has replicas of
// its own: bounds the combinations of the groups' degrees, opens the most promising first, shares
// out the batch in whole micro-batches, and lets the estimator decide. Takes fewer pains over plans
// that cannot be faster than `mix`, another plan for the job, if there is one. All referents
// outlive the call.
SetFound SearchReplicas(const Problem& problem, ReplicaSpace& space, const MixedSpace& mixed,
                        AnalyticModel& model, const std::vector<int>& pools,
                        const SetLimits& limits, std::optional<Seconds> mix);

}  // namespace meshwright

#pragma once

#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Everything that makes a plan illegal for a problem: devices that do not multiply, batches and
// layers that do not divide or add up, a schedule that is not modelled. Written apart from the
// search and its rules; plans of users and the winner of a study both pass through here.
std::vector<FieldViolation> CheckPlan(const ParallelPlan& plan, const Problem& problem,
                                      std::string_view prefix);

// What no step can be shorter than: twice the active parameters a token forward, thrice that with
// backward, at the devices' nominal peak. 0 where no peak is known.
Seconds LeastStep(const Problem& problem);

// Whether the figures of a winner can be true at all, from counts that do not use the estimator:
// its weights and states alone fit, and its step is no faster than the devices' peak allows.
// INTERNAL names what is wrong.
absl::Status CheckEstimate(const ParallelPlan& plan, const Estimate& estimate,
                           const Problem& problem);

}  // namespace meshwright

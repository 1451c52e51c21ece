#pragma once

#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Returns everything that makes a plan illegal for a problem, such as a device count that the
// degrees do not multiply to, batches and layers that do not divide or add up, or a schedule that
// is not modelled. It is independent of the search and its rules. Plans of users and the winner of
// a study are both checked here.
std::vector<FieldViolation> CheckPlan(const ParallelPlan& plan, const Problem& problem,
                                      std::string_view prefix);

// Returns what makes the framework of the problem, in its version, refuse to run a plan.
std::vector<FieldViolation> CheckLegality(const ParallelPlan& plan, const Problem& problem,
                                          std::string_view prefix);

// Returns a lower bound of the step time: two FLOPs per active parameter and token for the forward
// pass, three times that with the backward pass, at the devices' nominal peak. Returns 0 if no peak
// is known.
Seconds LeastStep(const Problem& problem);

// Checks that the figures of a winner are possible at all, from counts that do not use the
// estimator: its weights and states fit on their own, and its step is no faster than the devices'
// peak allows. Returns INTERNAL with what is wrong.
absl::Status CheckEstimate(const ParallelPlan& plan, const Estimate& estimate,
                           const Problem& problem);

}  // namespace meshwright

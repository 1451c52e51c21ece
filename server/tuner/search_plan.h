#pragma once

#include <chrono>
#include <string_view>

#include "estimator/analytic_model.h"
#include "server/tuner/strategies/exhaustive.h"
#include "server/tuner/study.h"

namespace meshwright {

// What every question that searches is made of.

// MIXED_CLUSTER_SEARCH for several pools.
absl::Status RequireOnePool(const Problem& problem);

// INVALID_ARGUMENT for another strategy than the exhaustive one: `what` compares best plans.
absl::Status RequireExhaustive(const StudyRequest& request, std::string_view what);

// Leaves of the space what the user does. INVALID_ARGUMENT names what cannot be, or that nothing is
// left.
absl::Status NarrowSpace(const std::vector<DimensionRequest>& dimensions, Problem& problem);

// The problem of a request, with one pool and what is left of its space.
absl::StatusOr<Problem> SearchableProblem(const StudyRequest& request, const Knowledge& knowledge);

// How far the search of a request may go; its time counts from `start`.
SearchOptions SearchOptionsOf(const StudyRequest& request, const StudyControl& control,
                              std::chrono::steady_clock::time_point start);

// The plan with its split of layers stated, and its estimate.
RankedPlan RankPlan(ParallelPlan plan, const Problem& problem, AnalyticModel& model);

}  // namespace meshwright

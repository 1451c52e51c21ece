#pragma once

#include <chrono>
#include <string_view>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/space/space_request.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// MIXED_CLUSTER_SEARCH for several pools.
absl::Status RequireOnePool(const Problem& problem);

// INVALID_ARGUMENT for another strategy than the exhaustive one: `what` compares best plans.
absl::Status RequireExhaustive(const StudyRequest& request, std::string_view what);

// Leaves of the space what the user does. INVALID_ARGUMENT names what cannot be, or that nothing is
// left.
absl::Status NarrowSpace(const std::vector<DimensionRequest>& dimensions, Problem& problem);

// Prepares a question that is answered by a search: one pool of devices, no trials, the space
// narrowed to what the request leaves of it.
absl::StatusOr<PreparedQuestion> PrepareSearch(StudyRequest request, const Knowledge& knowledge,
                                               const HistorySource& source);

// How far the search of a request may go; its time counts from `start`.
SearchOptions SearchOptionsOf(const StudyRequest& request, const StudyControl& control,
                              std::chrono::steady_clock::time_point start);

// No plan is faster than its model FLOPs at the best rate that the chip's GEMMs reach.
Seconds FloorOfStep(const Problem& problem, const Calibration& calibration);

// The plan with the split of layers that its framework takes, where it states none.
ParallelPlan WithStatedSplit(ParallelPlan plan, const Problem& problem);

// That plan and its estimate.
RankedPlan RankPlan(ParallelPlan plan, const Problem& problem, AnalyticModel& model);

}  // namespace meshwright

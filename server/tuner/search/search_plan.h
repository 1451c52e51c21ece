#pragma once

#include <chrono>
#include <string_view>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// Returns INVALID_ARGUMENT for any strategy but the exhaustive one, because `what` compares best
// plans.
absl::Status RequireExhaustive(const StudyRequest& request, std::string_view what);

// Returns INVALID_ARGUMENT if a dimension opens a setting of the workload: only RunStudy takes
// several values of one.
absl::Status RefuseOpenSettings(const StudyRequest& request);

// Narrows the space to the user's choices. Returns INVALID_ARGUMENT naming the choices that are
// impossible, or saying that no plan is left; also that of RefuseOpenSettings.
absl::Status NarrowSpace(const StudyRequest& request, Problem& problem);

// Prepares a question that is answered by a search: it has no trials, and its space is narrowed to
// the request's choices.
absl::StatusOr<PreparedQuestion> PrepareSearch(ResolvedStudy study, const Knowledge& knowledge,
                                               const HistorySource& source);

// Returns the limits of a request's search; its time counts from `start`.
SearchOptions SearchOptionsOf(const StudyRequest& request, const StudyControl& control,
                              std::chrono::steady_clock::time_point start);

// Returns a lower bound of the step time: the model FLOPs at the best rate that the chip's GEMMs
// reach.
Seconds FloorOfStep(const Problem& problem, const Calibration& calibration);

// Returns the plan with its framework's split of layers if it states none.
ParallelPlan WithStatedSplit(ParallelPlan plan, const Problem& problem);

// Returns the plan with a stated split, and its estimate.
RankedPlan RankPlan(ParallelPlan plan, const Problem& problem, AnalyticModel& model);

}  // namespace meshwright

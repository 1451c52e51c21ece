#pragma once

#include <optional>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// What a careful person would take by hand: the least tensor x pipeline, tensor inside the node
// first, that fits with micro-batch 1, ZeRO-1 and no recomputation, else with full recomputation
// (contract, "tune"). With experts, the least expert parallelism that makes it fit. Nothing when no
// such plan fits.
std::optional<ParallelPlan> DefaultBaseline(const Problem& problem, AnalyticModel& model);

// The baseline of a request, stated or by hand; `applied` gains the defaults that a stated one
// took.
absl::StatusOr<std::optional<RankedPlan>> BaselineOf(const StudyRequest& request,
                                                     const Problem& problem, AnalyticModel& model,
                                                     std::vector<AppliedDefault>& applied);

// What an answer that has plans says of its baseline.
void NoteBaseline(StudyResult& result);

}  // namespace meshwright

#pragma once

#include <vector>

#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Returns true if runs of the job `row` can teach anything about `problem`: the framework and the
// kinds of chips, one or several, are the same.
bool IsComparable(const Problem& row, const Problem& problem);

// Makes a run of each row, for the question that resolves to `problem`: first the request's rows,
// then the store's. A run that is in both counts once; it is recognized by its job, plan, outcome
// and measured figures. It keeps its place among the request's rows and takes the store's id, so
// that it counts for as much as the store's row would.
std::vector<ResolvedRun> ResolveRuns(const std::vector<HistoryRow>& own, const SharedRows& stored,
                                     const Problem& problem, const Knowledge& knowledge);

}  // namespace meshwright

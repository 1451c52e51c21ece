#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Returns whether runs of the job `row` can teach anything of `problem`: chip and framework are the
// same.
bool IsComparable(const Problem& row, const Problem& problem);

// Resolves each row once, for the question that resolves to `problem`: the request's rows, and
// behind them the store's. A run that is in both counts once: job, plan, outcome and measured
// figures are the same. It stays where the request has it and takes the store's id, so that it
// counts for what the store's row would count for. INVALID_ARGUMENT names the first row that cannot
// be: "history[3].plan...".
absl::StatusOr<std::vector<ResolvedRun>> ResolveRuns(const std::vector<HistoryRow>& own,
                                                     const std::vector<HistoryRow>& stored,
                                                     const Problem& problem,
                                                     const Knowledge& knowledge);

}  // namespace meshwright

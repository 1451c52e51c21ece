#pragma once

#include "estimator/learning/calibration.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// Explains a search that found no plan: the plan that needs the least memory, the memory kind that
// takes most of it, and the smallest single changes (memory, nodes, sequence, gradients, optimizer)
// that make some plan fit. Each change is verified by a search of its own that stops at its first
// fit. All these searches use the study's history. If no plan is legal, the suggestions say which
// rules leave the plans out, and why.
Infeasible ExplainInfeasible(const Problem& problem, const Calibration& calibration,
                             const SearchFound& found, const SearchOptions& options);

}  // namespace meshwright

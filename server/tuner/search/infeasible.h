#pragma once

#include "estimator/learning/calibration.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/exhaustive.h"

namespace meshwright {

// Explains a search that found nothing: the plan that needs least memory, the memory kind that
// takes most of it, and the smallest single changes (memory, nodes, sequence, gradients, optimizer)
// that make some plan fit, each verified by a search of its own that is stopped at its first fit.
// All of them keep to the study's history.
Infeasible ExplainInfeasible(const Problem& problem, const Calibration& calibration,
                             const SearchFound& found, const SearchOptions& options);

}  // namespace meshwright

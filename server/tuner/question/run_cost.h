#pragma once

#include <optional>

#include "search_space/spec/estimate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/training_run.h"

namespace meshwright {

// Returns the cost of a run on the devices of a problem, by the estimate of one of its plans.
RunCost RunCostOf(const TrainingRun& run, const Problem& problem, const Estimate& estimate);

// Fills `run` of every plan of the result and of the baseline. Does nothing without a run.
void AddRunCosts(const std::optional<TrainingRun>& run, const Problem& problem,
                 StudyResult& result);

}  // namespace meshwright

#pragma once

#include <cstddef>
#include <map>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/trial_chooser.h"
#include "server/tuner/trials/trials.h"

namespace meshwright {

// Knowledge of a job's plans once its trials are over.
struct LearntOfTrials {
  Calibration calibration = {};  // from the history and the trials
  std::map<ParallelPlan, TrialOutcome> outcomes = {};
};

// Returns a plan that ran, estimated by the cost model with factors that make its figures the
// measured ones.
RankedPlan RankMeasured(const Ran& run, const ParallelPlan& plan, const Problem& problem,
                        const Calibration& learnt);

// Returns an untried plan with the expectation that the trials taught.
RankedPlan RankUntried(const TrialChooser& chooser, std::size_t candidate, const Problem& problem,
                       AnalyticModel& model);

// Returns the best candidates that did not fail: those that ran come first, by their measured time;
// the untried ones follow, by their expectation.
std::vector<RankedPlan> RankAfterTrials(const TrialChooser& chooser, const LearntOfTrials& learnt,
                                        const Problem& problem, int plan_count);

// Adds warnings about trials that failed, were measured under doubt, or left something open.
void NoteTrials(const TrialsRun& run, const TrialRepeats& repeats, bool has_best,
                StudyResult& result);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "estimator/learning/calibration.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// Returns what measured runs of the same chip and framework as the problem teach of its step times
// and memory (docs/cost_model/learning.md): for memory one factor, for time a factor of
// the job and one of each plan, drawn towards 1 while runs are few. Runs of another model, workload
// or cluster count as less alike, and as nothing if the job's own runs contradict them; the
// warnings say so. Of a cluster with several kinds of chips, runs on one kind alone teach of the
// stages on it, and runs that mix the same kinds teach of whole mixes. The smallest run that ran
// out of memory marks the modelled size at which such chips fail, unless a run that is modelled
// larger succeeded; plans of the own job that failed and never ran are kept by themselves. Runs of
// other chips or frameworks are left out. The order of the runs does not matter.
Calibration Calibrate(const std::vector<ResolvedRun>& runs, const Problem& problem);

// How a question takes its history.
struct HistoryTerms {
  std::int64_t sequence = 0;                     // number of the store's last measurement in it
  std::vector<std::string> warnings = {};        // of the question and of the store
  std::vector<std::string> disabled_rules = {};  // without `history`, failed runs are forgotten
};

HistoryTerms TermsOf(const StudyRequest& request);

// Does the same on these terms, and reports the runs that the calibration rests on.
LearntCalibration LearnCalibration(const HistoryTerms& terms, const Problem& problem,
                                   const std::vector<ResolvedRun>& runs);

// Forgets failed runs if the rule `history` is off; returns true if it is.
bool ForgetFailuresIfOff(const std::vector<std::string>& disabled_rules, Calibration& calibration);

// Returns the warnings of both.
std::vector<std::string> WarningsOf(const Problem& problem, const Calibration& calibration);

}  // namespace meshwright

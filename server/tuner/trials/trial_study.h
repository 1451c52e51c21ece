#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/trials/launcher.h"

namespace meshwright {

// Everything that a study with trials is made of beside its request.
struct TrialSetup {
  std::vector<ParallelPlan> candidates = {};  // legal, with their split of layers; any order
  // For launchers of real jobs, not replay: the first trial is the baseline, what a rule rules out
  // is not run, and trials end within kJobsStopWithin where the request states no other ratio.
  bool runs_jobs = false;
};

// A study whose answer is measured: runs candidates by `launcher` within request.trials' budget.
// Plans that ran come first, by their measured time, then what was not tried, by what is expected
// of it after the trials; a plan that failed is in no ranking. A candidate that the history has as
// run, or as out of memory, in the same job counts as tried. The request needs `trials`, and its
// cluster one pool.
absl::StatusOr<StudyAnswer> RunTrialStudy(PreparedQuestion question, const TrialSetup& setup,
                                          Launcher& launcher, const StudyControl& control);

}  // namespace meshwright

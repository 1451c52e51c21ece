#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "search_space/spec/plan.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/trials/launcher.h"

namespace meshwright {

// The inputs of a study with trials, except its request.
struct TrialSetup {
  std::vector<ParallelPlan> candidates = {};  // legal, with their split of layers; in any order
  // True for launchers of real jobs, but not for replay. Then the first trial is the baseline,
  // plans that a rule rules out do not run, and trials end within kJobsStopWithin if the request
  // states no other ratio.
  bool runs_jobs = false;
};

// Runs a study whose answer is measured: `launcher` runs candidates within request.trials' budget.
// Plans that ran come first, by their measured time. Untried plans follow, by their expectation
// after the trials. A plan that failed is not ranked. A candidate counts as tried if the history
// has a run of it in the same job, or one that ran out of memory. The request needs `trials`, and
// its cluster one pool.
absl::StatusOr<StudyAnswer> RunTrialStudy(PreparedQuestion question, const TrialSetup& setup,
                                          Launcher& launcher, const StudyControl& control);

}  // namespace meshwright

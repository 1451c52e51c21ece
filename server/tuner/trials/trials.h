#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/units.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/question/trial_journal.h"
#include "server/tuner/trials/launcher.h"
#include "server/tuner/trials/trial_chooser.h"

namespace meshwright {

struct TrialOptions {
  TrialBudget budget = {};
  int device_count = 1;
  // Candidate that the others are compared with. It is tried before all others, whatever its
  // expectation.
  std::optional<std::size_t> baseline = {};
  TrialRepeats repeats = {};  // interleaving needs a baseline
  // True if the trials end once a rule has ruled out all candidates left; otherwise those are tried
  // last.
  bool skips_ruled_out = false;
  // Called between waits; if it returns true, the running job is cancelled.
  std::function<bool()> should_stop = {};
  // Returns true if the process ends; jobs that outlive it are then left running.
  std::function<bool()> should_leave = {};
  std::function<void(int tried, std::optional<Seconds> best)> on_trial = {};
  // Called after a trial. Returns the chooser's candidates with other estimates if the trials
  // contradict what their estimates rely on.
  std::function<std::optional<std::vector<RankedPlan>>(const std::vector<TriedPlan>&)> reconsider =
      {};
  const TrialJournal* journal = nullptr;  // null: nothing is recorded
};

struct TrialsRun {
  std::vector<TriedPlan> tried = {};  // in the order tried
  TrialSummary summary = {};
  std::optional<TrialStop> confirming_limit =
      {};                     // limit because of which confirming runs were left out
  absl::Status failure = {};  // launcher's error for kLauncherFailed, journal's for kStoreFailed
};

// Runs candidates one after the other until one of these holds: a budget is spent (checked before
// each trial, including the trial's expected time); no plan is worth a trial; all are tried; the
// trials are stopped; or only ruled-out plans are left and the options skip them. Then the fastest
// plans are confirmed, if that is requested and the time budgets allow it. `chooser` learns the
// judged outcome (trial_repeats.h) of each plan's first trial that proved anything. Repeats do not
// count in the budget of trials. All measurements are returned, whatever ended the trials. The
// journal's ended trials come first and count in the budgets; its open trial is submitted again,
// and then those that are to run again.
TrialsRun RunTrials(TrialChooser& chooser, Launcher& launcher, const TrialOptions& options);

}  // namespace meshwright

#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/units.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/launcher.h"
#include "server/tuner/trials/trial_chooser.h"
#include "server/tuner/trials/trial_journal.h"

namespace meshwright {

struct TrialOptions {
  TrialBudget budget = {};
  int device_count = 1;
  // Tried before all others whatever is expected of it: the plan to compare with.
  std::optional<std::size_t> baseline = {};
  TrialRepeats repeats = {};  // need a baseline to be interleaved
  // Ends where only candidates are left that a rule has ruled out; else they are tried last.
  bool skips_ruled_out = false;
  // Looked at between waits; what runs is then cancelled.
  std::function<bool()> should_stop = {};
  // The process ends: what outlives it is left running.
  std::function<bool()> should_leave = {};
  std::function<void(int tried, std::optional<Seconds> best)> on_trial = {};
  // After a trial: the chooser's candidates with other estimates, where the trials contradict what
  // theirs lean on.
  std::function<std::optional<std::vector<RankedPlan>>(const std::vector<TriedPlan>&)> reconsider =
      {};
  const TrialJournal* journal = nullptr;  // none: nothing is written down
};

struct TrialsRun {
  std::vector<TriedPlan> tried = {};  // in the order tried
  TrialSummary summary = {};
  std::optional<TrialStop> confirming_limit = {};  // that left runs to confirm with out
  absl::Status failure =
      {};  // with kLauncherFailed of the launcher, with kStoreFailed of the journal
};

// Runs candidates one after the other until a budget is spent, which is looked at before a trial
// and counts what the trial is expected to take; nothing is worth a trial any more; all are tried;
// or it is stopped; or only what is ruled out is left and the options skip it. Then the fastest are
// confirmed, where that is asked for and a budget of time is left. `chooser` has learnt from the
// judged outcome (trial_repeats.h) of each plan's first trial that proved anything; the budget of
// trials counts no repeats. Whatever ended it, what was measured is returned. Trials that the
// journal has as ended come first and count in the budgets; the one that it has as open is
// submitted again.
TrialsRun RunTrials(TrialChooser& chooser, Launcher& launcher, const TrialOptions& options);

}  // namespace meshwright

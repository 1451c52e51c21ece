#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"
#include "server/tuner/trials/attempt_journal.h"

namespace meshwright {

// A trial that is about to be submitted, and what is expected of it.
struct ExpectedTrial {
  int number = 0;  // from 1, in the order tried
  TrialPurpose purpose = TrialPurpose::kSearch;
  ParallelPlan plan = {};
  Seconds step_time = Seconds(0);  // median, should it run
  Seconds step_time_low = Seconds(0);
  Seconds step_time_high = Seconds(0);
  Bytes peak_memory = {};
  double success_probability = 0;
};

// Where the trials of a study are written down while it runs, so that a study whose process was
// lost goes on where it was: what has ended is learnt again and not run again. Called from the
// study's thread; an error ends the trials, since what is not written down would be run twice.
struct TrialJournal {
  std::vector<TriedPlan> ended = {};      // by an earlier process, in the order tried
  std::optional<ParallelPlan> open = {};  // begun by it, and not ended
  // What the history taught, before the first trial is begun.
  std::function<absl::Status(const std::optional<CalibrationReport>&)> learnt = {};
  // Both return once it is durable.
  std::function<absl::Status(const ExpectedTrial&)> begin = {};
  std::function<absl::Status(int number, const TriedPlan&)> end = {};
  // Of the trial that is open; for launchers of real jobs.
  AttemptJournal attempts = {};
};

}  // namespace meshwright

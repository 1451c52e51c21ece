#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/attempt_journal.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// A trial that is about to be submitted, and its expected result.
struct ExpectedTrial {
  int number = 0;  // from 1, in the order tried
  TrialPurpose purpose = TrialPurpose::kSearch;
  ParallelPlan plan = {};
  Seconds step_time = Seconds(0);  // median, if it runs
  Seconds step_time_low = Seconds(0);
  Seconds step_time_high = Seconds(0);
  Bytes peak_memory = {};
  double success_probability = 0;
};

// A journal of the trials of a running study. A study whose process was lost continues from it: the
// ended trials are learnt again and do not run again. Called from the study's thread. An error ends
// the trials, since a trial that is not recorded would run twice.
struct TrialJournal {
  std::vector<TriedPlan> ended = {};      // in earlier processes, in the order tried
  std::optional<ParallelPlan> open = {};  // begun in an earlier process and not ended
  std::vector<ParallelPlan> again = {};   // likewise; run after it, because somebody asks for it
  // Records what the history taught, before the first trial begins.
  std::function<absl::Status(const std::optional<CalibrationReport>&)> learnt = {};
  // Both return once the record is durable.
  std::function<absl::Status(const ExpectedTrial&)> begin = {};
  std::function<absl::Status(int number, const TriedPlan&)> end = {};
  // For the open trial; used by launchers of real jobs.
  AttemptJournal attempts = {};
};

}  // namespace meshwright

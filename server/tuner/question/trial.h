#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/job_template.h"

namespace meshwright {

// The outcomes of a plan that was run. The comment of each says what it proves.
struct Ran {
  Seconds step_time = Seconds(0);  // median of the warm steps
  std::optional<Bytes> peak_memory = {};
  bool operator==(const Ran&) const = default;
};
// Proves that plans with at least this one's modelled memory run out of memory too.
struct OutOfMemory {
  bool operator==(const OutOfMemory&) const = default;
};
// Makes similar plans less likely to run.
struct Crashed {
  bool operator==(const Crashed&) const = default;
};
// No step ended. Makes similar plans less likely to run.
struct Hung {
  bool operator==(const Hung&) const = default;
};
// The steps take longer than expected; it is not known how much longer.
struct TimedOut {
  bool operator==(const TimedOut&) const = default;
};
// Stopped from outside; proves nothing.
struct Cancelled {
  bool operator==(const Cancelled&) const = default;
};
using TrialOutcome = std::variant<Ran, OutOfMemory, Crashed, Hung, TimedOut, Cancelled>;

// Returns the word for an outcome.
Outcome OutcomeOf(const TrialOutcome& outcome);
// Returns the outcome that a word names; the figures count for kOk only.
TrialOutcome TrialOutcomeOf(Outcome word, Seconds step_time, std::optional<Bytes> peak_memory);

// A row of measured results that replace a cluster.
struct MeasuredPlan {
  PlanRequest plan = {};
  Outcome outcome = Outcome::kOk;
  std::optional<Seconds> step_time = {};  // present with kOk
  std::optional<Bytes> peak_memory = {};
};

// Returns the time that a trial occupies its devices: two minutes until the first step, and ten
// steps. AMP's logs have trials of 122 to 235 s on average (arXiv 2210.07297). A trial that fails
// takes no steps.
Seconds TrialTime(Seconds step_time);

// Default of `stop_within` for trials of real jobs. They occupy a cluster, so they are not spent on
// a plan that is hardly faster.
inline constexpr double kJobsStopWithin = 0.02;

// Limits on the cost of trials. Each is checked before the next trial is submitted.
struct TrialBudget {
  int trials = 1;
  std::optional<Seconds> device_time = {};  // devices x time
  std::optional<Seconds> time = {};
  // `stop_within_ratio` of a request. 0: trials do not end because of it. Absent: kJobsStopWithin
  // for real jobs, otherwise 0.
  std::optional<double> stop_within = {};
};

// Repeats of real jobs only, for machines whose speed varies (trial_repeats.h).
struct TrialRepeats {
  bool interleaves_baseline = false;  // the baseline runs again before each trial
  int confirmed_plans = 0;            // number of the fastest plans that run again at the end
};

struct TrialRequest {
  std::string launcher = {};              // one of Launchers() (launcher_facts.h)
  std::vector<MeasuredPlan> replay = {};  // for a launcher that runs no jobs
  std::optional<JobTemplate> job = {};    // for the other launchers
  TrialBudget budget = {};
  TrialRepeats repeats = {};
};

struct TriedPlan {
  ParallelPlan plan = {};
  TrialPurpose purpose = TrialPurpose::kSearch;
  TrialOutcome outcome = Cancelled();
  // Step time of the baseline's last run before it, or its own if it is the baseline; absent: not
  // compared.
  std::optional<Seconds> reference_step_time = {};
  // Time expected when it was chosen, for a machine as fast as it was then.
  Seconds expected_step_time = Seconds(0);
  double success_probability = 0;
  Seconds device_time = Seconds(0);               // device time that it occupied
  std::string failure_class = {};                 // why a job was not measured
  std::string failure_message = {};               // the same as a sentence
  std::vector<std::string> suspect_reasons = {};  // reasons to doubt its time
  std::string environment_digest = {};            // environment that it ran in; empty: not reported
};

enum class TrialStop {
  kAllTried,
  kRestRuledOut,
  kTrialLimit,
  kDeviceTimeLimit,
  kTimeLimit,
  kWithinRatio,
  kLauncherFailed,
  kStoreFailed,
  kCancelled,
};
std::string_view Word(TrialStop stop);  // "all_tried", ...

struct TrialSummary {
  TrialStop stop = TrialStop::kAllTried;
  int candidate_count = 0;
  Seconds device_time = Seconds(0);
  Seconds time = Seconds(0);
  double remaining_gain = 0;  // `remaining_gain_ratio` of an answer
  // The two times behind that ratio. Absent: none ran; no remaining plan is worth a trial.
  std::optional<Seconds> best = {};
  std::optional<Seconds> optimistic = {};
};

}  // namespace meshwright

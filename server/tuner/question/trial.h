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
#include "server/tuner/question/problem.h"

namespace meshwright {

// What became of a plan that was run. Each says what it proves.
struct Ran {
  Seconds step_time = Seconds(0);  // median of a step, warm
  std::optional<Bytes> peak_memory = {};
  bool operator==(const Ran&) const = default;
};
// Plans of at least this one's modelled memory will do the same.
struct OutOfMemory {
  bool operator==(const OutOfMemory&) const = default;
};
// Plans like it are less likely to run.
struct Crashed {
  bool operator==(const Crashed&) const = default;
};
// No step ended; likewise.
struct Hung {
  bool operator==(const Hung&) const = default;
};
// Its steps are longer than expected; how much longer is not known.
struct TimedOut {
  bool operator==(const TimedOut&) const = default;
};
// Stopped from outside: proves nothing.
struct Cancelled {
  bool operator==(const Cancelled&) const = default;
};
using TrialOutcome = std::variant<Ran, OutOfMemory, Crashed, Hung, TimedOut, Cancelled>;

// Returns the word of what became of a plan.
Outcome OutcomeOf(const TrialOutcome& outcome);
// Returns what a word says became of a plan; the figures count for kOk only.
TrialOutcome TrialOutcomeOf(Outcome word, Seconds step_time, std::optional<Bytes> peak_memory);

// A row of measured results that stand in for a cluster.
struct MeasuredPlan {
  PlanRequest plan = {};
  Outcome outcome = Outcome::kOk;
  std::optional<Seconds> step_time = {};  // present with kOk
  std::optional<Bytes> peak_memory = {};
};

// The time that a trial occupies its devices: two minutes until it steps, and ten steps. AMP's logs
// have trials of 122 to 235 s on average (arXiv 2210.07297); a trial that fails takes no steps.
Seconds TrialTime(Seconds step_time);

// Of trials of real jobs, where nothing is stated: they occupy a cluster, and are not spent on a
// plan that is hardly faster.
inline constexpr double kJobsStopWithin = 0.02;

// What trials may cost. Each limit is looked at before the next trial is submitted.
struct TrialBudget {
  int trials = 1;
  std::optional<Seconds> device_time = {};  // devices x time
  std::optional<Seconds> time = {};
  // Ratio; contract: stop_within_ratio. 0: trials do not end for it; not stated:
  // kJobsStopWithin of real jobs, else 0.
  std::optional<double> stop_within = {};
};

inline constexpr std::string_view kReplayLauncher = "replay";
inline constexpr std::string_view kLocalLauncher = "local";
inline constexpr std::string_view kSlurmLauncher = "slurm";
inline constexpr std::string_view kKubernetesLauncher = "kubernetes";
std::vector<std::string> LauncherNames();

// Of jobs alone, on machines of which the speed varies (trial_repeats.h).
struct TrialRepeats {
  bool interleaves_baseline = false;  // the baseline runs again before each trial
  int confirmed_plans = 0;            // the fastest so many run again in the end
};

struct TrialRequest {
  std::string launcher = {};              // one of LauncherNames()
  std::vector<MeasuredPlan> replay = {};  // of kReplayLauncher
  std::optional<JobTemplate> job = {};    // of the others
  TrialBudget budget = {};
  TrialRepeats repeats = {};
};

struct TriedPlan {
  ParallelPlan plan = {};
  TrialPurpose purpose = TrialPurpose::kSearch;
  TrialOutcome outcome = Cancelled();
  // Of the baseline's last run before it, or its own where it is one; absent: not compared.
  std::optional<Seconds> reference_step_time = {};
  // When it was chosen, on a machine as fast as it was then.
  Seconds expected_step_time = Seconds(0);
  double success_probability = 0;
  Seconds device_time = Seconds(0);               // what it occupied
  std::string failure_class = {};                 // of a job that was not measured: why
  std::string failure_message = {};               // the same in a sentence
  std::vector<std::string> suspect_reasons = {};  // why its time is doubted
  std::string environment_digest = {};            // of what it ran in; empty: not told
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
  double remaining_gain = 0;  // ratio; contract: remaining_gain_ratio
  // Which that is the ratio of. Nothing: none ran; no plan left is worth a trial.
  std::optional<Seconds> best = {};
  std::optional<Seconds> optimistic = {};
};

}  // namespace meshwright

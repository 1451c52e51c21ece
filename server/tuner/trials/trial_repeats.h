#pragma once

#include <map>
#include <optional>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// Plans run more than once on machines whose speed varies (docs/jobs/trials.md). A
// trial's judged step time is its ratio to the last run of the baseline before it, times the
// baseline's first. If the baseline never ran, it is the measured time. The baseline is the plan of
// the first trial. Pure: everything follows from the trials so far, so a study that was lost
// continues as it would have.

struct TrialRole {
  TrialPurpose purpose = TrialPurpose::kSearch;
  std::optional<Seconds> reference_step_time = {};  // as in TriedPlan
};

// Returns the purpose of a trial of `plan` after the trials in `before`, and the time that it is
// compared with. A run of the baseline itself has its own time, which is known once it has ended.
TrialRole RoleOf(const ParallelPlan& plan, const TrialOutcome& outcome,
                 const std::vector<TriedPlan>& before, const TrialRepeats& repeats);

// Returns true if the baseline must run again before anything else. If its first run proved
// nothing, it runs once more; if it failed, nothing is compared with it.
bool IsReferenceDue(const std::vector<TriedPlan>& tried, const TrialRepeats& repeats);

// Returns how much slower the machine is now than at the baseline's first run; 1 if unknown.
double SlownessNow(const std::vector<TriedPlan>& tried, const TrialRepeats& repeats);

// Number of additional runs of a plan that is confirmed.
inline constexpr int kConfirmingRuns = 3;

// Returns the plan to run next to confirm the fastest plans by judged time: the one with the fewest
// confirming runs among the requested number of plans. Returns nullopt if all are confirmed.
std::optional<ParallelPlan> NextToConfirm(const std::vector<TriedPlan>& tried,
                                          const TrialRepeats& repeats);

// Returns the outcome of a trial with its judged time. `tried` includes the trial.
TrialOutcome Judged(const TriedPlan& trial, const std::vector<TriedPlan>& tried);

// The combined result of all trials of one plan. Cancelled trials prove nothing and do not count.
struct PlanRuns {
  // The median of the judged times and the largest peak of the trials that ran; if more failed than
  // ran, the outcome of the last failure.
  TrialOutcome outcome = Cancelled();
  int ran_count = 0;
  int failed_count = 0;
};
std::map<ParallelPlan, PlanRuns> RunsByPlan(const std::vector<TriedPlan>& tried);

}  // namespace meshwright

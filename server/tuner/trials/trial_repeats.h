#pragma once

#include <map>
#include <optional>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/trial.h"

namespace meshwright {

// Plans that run more than once on machines of which the speed varies (docs/jobs.md "Machines that
// vary"). A trial's judged step time is its ratio to the last run of the baseline before it, times
// the baseline's first; where the baseline never ran it is what was measured. The baseline is the
// plan of the first trial. Pure: all follows from the trials so far, so that a study that was lost
// goes on as it would have.

struct TrialRole {
  TrialPurpose purpose = TrialPurpose::kSearch;
  std::optional<Seconds> reference_step_time = {};  // as in TriedPlan
};

// What a trial of `plan` is for, after those in `before`, and what it is compared with; a run of
// the baseline itself with its own time, which is not known before it has ended.
TrialRole RoleOf(const ParallelPlan& plan, const TrialOutcome& outcome,
                 const std::vector<TriedPlan>& before, const TrialRepeats& repeats);

// Whether the baseline runs again before anything else does. Where its first run proved nothing it
// is run once more; where it failed, nothing is compared with it.
bool IsReferenceDue(const std::vector<TriedPlan>& tried, const TrialRepeats& repeats);

// How much slower the machine is now than at the baseline's first run; 1 where that is not known.
double SlownessNow(const std::vector<TriedPlan>& tried, const TrialRepeats& repeats);

// A confirmed plan runs so often again.
inline constexpr int kConfirmingRuns = 3;

// The plan that runs next to confirm the fastest by judged time: of so many as are asked for the
// one that was confirmed least. Nothing when all were.
std::optional<ParallelPlan> NextToConfirm(const std::vector<TriedPlan>& tried,
                                          const TrialRepeats& repeats);

// The outcome of a trial with its judged time, in the trials that it is one of.
TrialOutcome Judged(const TriedPlan& trial, const std::vector<TriedPlan>& tried);

// All that the trials of one plan came to; what was cancelled proves nothing and does not count.
struct PlanRuns {
  // The median of the judged times and the largest peak of those that ran; where more failed than
  // ran, how the last failed.
  TrialOutcome outcome = Cancelled();
  int ran_count = 0;
  int failed_count = 0;
};
std::map<ParallelPlan, PlanRuns> RunsByPlan(const std::vector<TriedPlan>& tried);

}  // namespace meshwright

#pragma once

#include <span>

#include "search_space/spec/choices.h"
#include "server/launchers/jobs/job_engine.h"

namespace meshwright {

// Why an attempt at a trial ended without a measurement. The words are those of the harness
// (docs/harness.md), to which the engine's and the server's own are added.
enum class FailureClass {
  kOomDevice,
  kOomHost,
  kHang,          // no step for the watchdog's limit
  kStartTimeout,  // no first step
  kTimeout,       // ran into its time limit
  kNodeFailure,
  kPreempted,
  kInvalidConfig,
  kLaunchError,
  kMetricsMissing,
  kNumeric,
  kCrash,
  kCancelled,       // by somebody
  kLost,            // the engine does not know it any more, and it left no result
  kQueueTimeout,    // it did not begin in the time that it may wait
  kRefused,         // the engine will never run it
  kBudget,          // what was left of a budget of time ended it
  kMetricsInvalid,  // it measured what cannot be: another unit, most often
};
template <>
std::span<const ChoiceWord<FailureClass>> Choices<FailureClass>();

// What follows from a class.
struct FailurePolicy {
  FailureClass failure;
  // What the trial ends as once nothing is tried again: what the plan is taken to have proven.
  // kCancelled: nothing.
  Outcome outcome = Outcome::kCancelled;
  int retries = 0;             // at most, of this class in a trial
  bool excludes_node = false;  // the next attempt leaves out the nodes of this one
  bool is_of_site = false;     // says something of the site: several in a row pause a study
};
const FailurePolicy& PolicyOf(FailureClass failure);

// Of a job that ended and left no result of the harness: as far as the engine can tell. Exit codes
// are those of the harness and of the reference step, which programs of other people need not keep.
FailureClass FailureOf(const JobEnd& end);

// Whether one more attempt is due after `failures`, the classes of a trial's attempts in order.
bool IsRetried(std::span<const FailureClass> failures);

}  // namespace meshwright

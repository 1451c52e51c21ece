#pragma once

#include <span>

#include "search_space/spec/choices.h"
#include "server/launchers/jobs/job_engine.h"

namespace meshwright {

// The reasons for which an attempt at a trial ends without a measurement. The words are those of
// the harness (docs/harness.md) and a few of the engine and the server.
enum class FailureClass {
  kOomDevice,
  kOomHost,
  kHang,          // no step within the watchdog's limit
  kStartTimeout,  // no first step
  kTimeout,       // reached its time limit
  kNodeFailure,
  kPreempted,
  kInvalidConfig,
  kLaunchError,
  kMetricsMissing,
  kNumeric,
  kCrash,
  kCancelled,       // somebody ended it
  kLost,            // the engine no longer knows it, and it left no result
  kQueueTimeout,    // it did not begin within the time it may wait
  kRefused,         // the engine will never run it
  kBudget,          // the rest of a time budget ended it
  kMetricsInvalid,  // it measured what cannot be, most often in another unit
};
template <>
std::span<const ChoiceWord<FailureClass>> Choices<FailureClass>();

// The consequences of a failure class.
struct FailurePolicy {
  FailureClass failure;
  // The outcome of the trial after the last attempt, which is what the plan is taken to have shown.
  // kCancelled: it has shown nothing.
  Outcome outcome = Outcome::kCancelled;
  int retries = 0;             // at most so many of this class in a trial
  bool excludes_node = false;  // the next attempt avoids the nodes of this one
  bool is_of_site = false;     // the site is at fault: several in a row pause a study
};
const FailurePolicy& PolicyOf(FailureClass failure);

// Classifies a job that ended without a result of the harness, as far as the engine can tell. Exit
// codes are read as those of the harness and the reference step, to which other programs need not
// keep.
FailureClass FailureOf(const JobEnd& end);

// Returns true if one more attempt is due after `failures`, the classes of a trial's attempts in
// order.
bool IsRetried(std::span<const FailureClass> failures);

}  // namespace meshwright

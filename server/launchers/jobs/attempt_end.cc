#include "server/launchers/jobs/attempt_end.h"

#include <algorithm>
#include <cstdlib>

namespace meshwright {
namespace {

// The plan's own failures are final and teach something about the plan. The site's failures are
// tried again and teach nothing.
constexpr FailurePolicy kPolicies[] = {
    {.failure = FailureClass::kOomDevice, .outcome = Outcome::kOom},
    // The cost model says nothing about the memory of the host.
    {.failure = FailureClass::kOomHost, .outcome = Outcome::kCrash, .retries = 1},
    {.failure = FailureClass::kHang,
     .outcome = Outcome::kHang,
     .retries = 1,
     .excludes_node = true},
    {.failure = FailureClass::kStartTimeout, .outcome = Outcome::kHang, .retries = 1},
    {.failure = FailureClass::kTimeout, .outcome = Outcome::kTimeout},
    {.failure = FailureClass::kNodeFailure, .retries = 3, .excludes_node = true},
    {.failure = FailureClass::kPreempted, .retries = 10},
    {.failure = FailureClass::kInvalidConfig, .outcome = Outcome::kCrash},
    {.failure = FailureClass::kLaunchError, .is_of_site = true},
    {.failure = FailureClass::kMetricsMissing, .retries = 1, .is_of_site = true},
    {.failure = FailureClass::kNumeric, .outcome = Outcome::kCrash},
    {.failure = FailureClass::kCrash, .outcome = Outcome::kCrash},
    {.failure = FailureClass::kCancelled},
    {.failure = FailureClass::kLost, .retries = 2},
    {.failure = FailureClass::kQueueTimeout, .is_of_site = true},
    {.failure = FailureClass::kRefused, .is_of_site = true},
    {.failure = FailureClass::kBudget},
    {.failure = FailureClass::kMetricsInvalid, .is_of_site = true},
};

struct ExitCodeRow {
  int code = 0;
  FailureClass failure = FailureClass::kCrash;
};
// The codes of docs/harness.md "Classes and exit codes", of docs/train_step.md "Exit codes" and of
// the shell. Any other code is a crash.
constexpr ExitCodeRow kExitCodes[] = {
    {0, FailureClass::kMetricsMissing}, {2, FailureClass::kLaunchError},
    {40, FailureClass::kOomDevice},     {41, FailureClass::kOomHost},
    {42, FailureClass::kInvalidConfig}, {43, FailureClass::kNumeric},
    {44, FailureClass::kHang},          {46, FailureClass::kTimeout},
    {47, FailureClass::kStartTimeout},  {48, FailureClass::kNodeFailure},
    {49, FailureClass::kLaunchError},   {50, FailureClass::kMetricsMissing},
    {51, FailureClass::kCancelled},     {81, FailureClass::kHang},
    {83, FailureClass::kNumeric},       {84, FailureClass::kInvalidConfig},
    {85, FailureClass::kOomHost},       {86, FailureClass::kOomDevice},
    {126, FailureClass::kLaunchError},  // not executable
    {127, FailureClass::kLaunchError},  // not found
    {137, FailureClass::kLost},         // SIGKILL from an unknown sender
    {143, FailureClass::kCancelled}};   // SIGTERM from outside

}  // namespace

template <>
std::span<const ChoiceWord<FailureClass>> Choices<FailureClass>() {
  static constexpr ChoiceWord<FailureClass> kTable[] = {
      {FailureClass::kOomDevice, "oom_device"},
      {FailureClass::kOomHost, "oom_host"},
      {FailureClass::kHang, "hang"},
      {FailureClass::kStartTimeout, "start_timeout"},
      {FailureClass::kTimeout, "timeout"},
      {FailureClass::kNodeFailure, "node_failure"},
      {FailureClass::kPreempted, "preempted"},
      {FailureClass::kInvalidConfig, "invalid_config"},
      {FailureClass::kLaunchError, "launch_error"},
      {FailureClass::kMetricsMissing, "metrics_missing"},
      {FailureClass::kNumeric, "numeric"},
      {FailureClass::kCrash, "crash"},
      {FailureClass::kCancelled, "cancelled"},
      {FailureClass::kLost, "lost"},
      {FailureClass::kQueueTimeout, "queue_timeout"},
      {FailureClass::kRefused, "refused"},
      {FailureClass::kBudget, "budget"},
      {FailureClass::kMetricsInvalid, "metrics_invalid"},
  };
  return kTable;
}

const FailurePolicy& PolicyOf(FailureClass failure) {
  const auto found = std::ranges::find(kPolicies, failure, &FailurePolicy::failure);
  if (found == std::end(kPolicies)) std::abort();
  return *found;
}

FailureClass FailureOf(const JobEnd& end) {
  switch (end.kind) {
    case JobEndKind::kOutOfMemory:
      return FailureClass::kOomHost;
    case JobEndKind::kTimeLimit:
      return FailureClass::kTimeout;
    case JobEndKind::kNodeFailure:
      return FailureClass::kNodeFailure;
    case JobEndKind::kPreempted:
      return FailureClass::kPreempted;
    case JobEndKind::kCancelled:
      return FailureClass::kCancelled;
    case JobEndKind::kRefused:
      return FailureClass::kRefused;
    case JobEndKind::kExited:
      break;
  }
  if (!end.exit_code.has_value()) return FailureClass::kLost;
  const auto row = std::ranges::find(kExitCodes, *end.exit_code, &ExitCodeRow::code);
  return row == std::end(kExitCodes) ? FailureClass::kCrash : row->failure;
}

bool IsRetried(std::span<const FailureClass> failures) {
  if (failures.empty()) return false;
  const FailureClass last = failures.back();
  return std::ranges::count(failures, last) <= PolicyOf(last).retries;
}

}  // namespace meshwright

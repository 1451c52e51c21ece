#include "server/launchers/jobs/job_engine.h"

namespace meshwright {

template <>
std::span<const ChoiceWord<JobState>> Choices<JobState>() {
  static constexpr ChoiceWord<JobState> kTable[] = {
      {JobState::kUnknown, "unknown"},
      {JobState::kPending, "pending"},
      {JobState::kRunning, "running"},
      {JobState::kEnded, "ended"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<JobEndKind>> Choices<JobEndKind>() {
  static constexpr ChoiceWord<JobEndKind> kTable[] = {
      {JobEndKind::kExited, "exited"},        {JobEndKind::kOutOfMemory, "out_of_memory"},
      {JobEndKind::kTimeLimit, "time_limit"}, {JobEndKind::kNodeFailure, "node_failure"},
      {JobEndKind::kPreempted, "preempted"},  {JobEndKind::kCancelled, "cancelled"},
      {JobEndKind::kRefused, "refused"},
  };
  return kTable;
}

}  // namespace meshwright

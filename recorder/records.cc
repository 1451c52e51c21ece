#include "recorder/records.h"

#include <cstdlib>

namespace meshwright {

template <>
std::span<const ChoiceWord<StudyState>> Choices<StudyState>() {
  static constexpr ChoiceWord<StudyState> kTable[] = {
      {StudyState::kQueued, "queued"},         {StudyState::kRunning, "running"},
      {StudyState::kPaused, "paused"},         {StudyState::kInterrupted, "interrupted"},
      {StudyState::kCancelling, "cancelling"}, {StudyState::kSucceeded, "succeeded"},
      {StudyState::kFailed, "failed"},         {StudyState::kCancelled, "cancelled"},
  };
  return kTable;
}

bool IsTerminal(StudyState state) {
  switch (state) {
    case StudyState::kQueued:
    case StudyState::kRunning:
    case StudyState::kPaused:
    case StudyState::kInterrupted:
    case StudyState::kCancelling:
      return false;
    case StudyState::kSucceeded:
    case StudyState::kFailed:
    case StudyState::kCancelled:
      return true;
  }
  std::abort();
}

}  // namespace meshwright

#include "recorder/records.h"

#include <cstdlib>

#include "recorder/history_records.h"
#include "recorder/trial_records.h"

namespace meshwright {

template <>
std::span<const ChoiceWord<StudyState>> Choices<StudyState>() {
  static constexpr ChoiceWord<StudyState> kTable[] = {
      {StudyState::kQueued, "queued"},           {StudyState::kRunning, "running"},
      {StudyState::kInterrupted, "interrupted"}, {StudyState::kCancelling, "cancelling"},
      {StudyState::kSucceeded, "succeeded"},     {StudyState::kFailed, "failed"},
      {StudyState::kCancelled, "cancelled"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<MeasurementSource>> Choices<MeasurementSource>() {
  static constexpr ChoiceWord<MeasurementSource> kTable[] = {
      {MeasurementSource::kTrial, "trial"},
      {MeasurementSource::kJobReport, "job_report"},
      {MeasurementSource::kImport, "import"},
      {MeasurementSource::kReplay, "replay"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<TrialState>> Choices<TrialState>() {
  static constexpr ChoiceWord<TrialState> kTable[] = {
      {TrialState::kOpen, "open"},
      {TrialState::kEnded, "ended"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<TrialPurpose>> Choices<TrialPurpose>() {
  static constexpr ChoiceWord<TrialPurpose> kTable[] = {
      {TrialPurpose::kSearch, "search"},
      {TrialPurpose::kReference, "reference"},
      {TrialPurpose::kConfirm, "confirm"},
  };
  return kTable;
}

template <>
std::span<const ChoiceWord<AttemptState>> Choices<AttemptState>() {
  static constexpr ChoiceWord<AttemptState> kTable[] = {
      {AttemptState::kIntended, "intended"},
      {AttemptState::kSubmitted, "submitted"},
      {AttemptState::kRunning, "running"},
      {AttemptState::kEnded, "ended"},
  };
  return kTable;
}

bool IsTerminal(StudyState state) {
  switch (state) {
    case StudyState::kQueued:
    case StudyState::kRunning:
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

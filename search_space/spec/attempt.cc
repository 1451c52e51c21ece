#include "search_space/spec/attempt.h"

namespace meshwright {

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

}  // namespace meshwright

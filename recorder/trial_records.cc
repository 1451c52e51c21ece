#include "recorder/trial_records.h"

namespace meshwright {

template <>
std::span<const ChoiceWord<TrialState>> Choices<TrialState>() {
  static constexpr ChoiceWord<TrialState> kTable[] = {
      {TrialState::kOpen, "open"},
      {TrialState::kEnded, "ended"},
  };
  return kTable;
}

}  // namespace meshwright

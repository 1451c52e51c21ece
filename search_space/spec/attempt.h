#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The states of an attempt, in the order in which it goes through them. kIntended is stored before
// anything is submitted, so that after a crash one knows which runs may still be active.
enum class AttemptState { kIntended, kSubmitted, kRunning, kEnded };
template <>
std::span<const ChoiceWord<AttemptState>> Choices<AttemptState>();

// The reason for which a plan runs: to learn its cost, to compare the next trial with it, or
// because it is among the fastest.
enum class TrialPurpose { kSearch, kReference, kConfirm };
template <>
std::span<const ChoiceWord<TrialPurpose>> Choices<TrialPurpose>();

// How well an attempt was measured, as far as the program that measured it reports
// (docs/harness.md).
struct AttemptQuality {
  std::optional<int> step_count = {};  // number of samples that count
  std::optional<Seconds> step_time_low = {};
  std::optional<Seconds> step_time_high = {};
  std::optional<double> spread_ratio = {};        // spread of the samples / their median
  std::vector<std::string> suspect_reasons = {};  // one-line sentences; empty if nothing is suspect
  std::string environment = {};                   // JSON: host, devices, drivers, variables
  std::string environment_digest = {};            // equal if everything that affects speed is equal
  bool operator==(const AttemptQuality&) const = default;
};

}  // namespace meshwright

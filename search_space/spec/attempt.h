#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// In the order that an attempt goes through. kIntended: written down before anything is submitted,
// so that after a crash one knows what may be running.
enum class AttemptState { kIntended, kSubmitted, kRunning, kEnded };
template <>
std::span<const ChoiceWord<AttemptState>> Choices<AttemptState>();

// Why a plan runs: to learn what it takes, to compare the next trial with, or because it is among
// the fastest.
enum class TrialPurpose { kSearch, kReference, kConfirm };
template <>
std::span<const ChoiceWord<TrialPurpose>> Choices<TrialPurpose>();

// How well an attempt was measured, as far as whoever measured it tells (docs/harness.md).
struct AttemptQuality {
  std::optional<int> step_count = {};  // samples that count
  std::optional<Seconds> step_time_low = {};
  std::optional<Seconds> step_time_high = {};
  std::optional<double> spread_ratio = {};        // of the samples, to their median
  std::vector<std::string> suspect_reasons = {};  // sentences of one line; none: no doubt
  std::string environment = {};                   // JSON: host, devices, drivers, variables
  std::string environment_digest = {};            // equal where all that matters to speed is
  bool operator==(const AttemptQuality&) const = default;
};

}  // namespace meshwright

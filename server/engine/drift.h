#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"

namespace meshwright {

// A chip's departure from what is expected of it under a framework, by its newest runs, each taken
// as standard deviations of its own expected interval. One run outside says little, and so do
// several that are off a little, because runs of one job share what the model gets wrong; so it is
// drift when the mean of at least three lies outside the central 80 % and so many would not lie
// there by chance: |mean| > max(1.28, 3 / sqrt(n)).
struct Drift {
  int run_count = 0;
  double mean_deviation = 0;  // standard deviations; positive: slower than expected
  double limit = 0;           // of its absolute value
  double mean_ratio = 1;      // measured / expected, the geometric mean
};
inline constexpr int kMostDriftRuns = 8;
inline constexpr int kLeastDriftRuns = 3;

// Looks at the first kMostDriftRuns that ran and had an interval; the newest come first. Returns
// nullopt if there is no drift.
std::optional<Drift> FindDrift(std::span<const MeasurementRecord> newest_first);

// Returns what a user whose answer leans on the chip should know, by the trials and job reports up
// to a number (absent: all); nullopt if there is no drift.
absl::StatusOr<std::optional<std::string>> DriftWarning(const Recorder& store,
                                                        std::string_view chip,
                                                        std::string_view framework,
                                                        std::optional<std::int64_t> up_to_sequence);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "server/engine/measured_rows.h"

namespace meshwright {

// The departure of a chip from what is expected of it under a framework. It is judged by the newest
// runs, each in standard deviations of its own expected interval. One run outside its interval says
// little. Several runs that are slightly off say little too, because runs of one job share the
// errors of the model. So there is drift if the mean of at least three runs is outside the central
// 80 % and would not be that far off by chance: |mean| > max(1.28, 3 / sqrt(n)).
struct Drift {
  int run_count = 0;
  double mean_deviation = 0;  // standard deviations; positive: slower than expected
  double limit = 0;           // limit of its absolute value
  double mean_ratio = 1;      // measured / expected, the geometric mean
};
inline constexpr int kMaxDriftRuns = 8;
inline constexpr int kLeastDriftRuns = 3;

// Examines the first kMaxDriftRuns that ran and had an interval; the newest come first. Returns
// nullopt if there is no drift.
std::optional<Drift> FindDrift(std::span<const MeasurementRecord> newest_first);

// Returns a warning for a user whose answer relies on the chip, based on the trials and job reports
// up to a number (absent: all) from which something is learnt, which a retracted one is not.
// Returns nullopt if there is no drift.
absl::StatusOr<std::optional<std::string>> DriftWarning(MeasuredRows& rows, std::string_view chip,
                                                        std::string_view framework,
                                                        std::optional<std::int64_t> up_to_sequence);

}  // namespace meshwright

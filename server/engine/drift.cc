#include "server/engine/drift.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

#include "estimator/learning/interval.h"
#include "recorder/recorder.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// The mean of independent runs is off by this many standard deviations by chance in 1 of 370 cases.
constexpr double kChance = 3;
// The number of runs to read at once. It is higher than the number that counts, because runs
// without an interval are skipped.
constexpr int kPage = 100;
// The most runs to read, to find those that count among runs that teach nothing.
constexpr int kMaxLookedAt = 1000;

// Returns how far the run is from what was expected, in standard deviations of its own interval.
// The two sides of the interval may differ.
std::optional<double> DeviationOf(const MeasurementRecord& run) {
  const ExpectedFigures& expected = run.expected;
  const bool has_interval = expected.step_time && expected.low && expected.high;
  if (run.outcome != Outcome::kOk || !run.step_time || !has_interval) return std::nullopt;
  const double residual = std::log(*run.step_time / *expected.step_time);
  const double side = residual > 0 ? std::log(*expected.high / *expected.step_time)
                                   : std::log(*expected.step_time / *expected.low);
  const double deviation = residual / side * kCentral80;
  if (!(side > 0) || !std::isfinite(deviation)) return std::nullopt;
  return deviation;
}

// Returns the newest runs of the filter that teach and have an interval, at most kMaxDriftRuns.
absl::StatusOr<std::vector<MeasurementRecord>> NewestRuns(MeasuredRows& rows,
                                                          const MeasurementFilter& filter) {
  std::vector<MeasurementRecord> runs;
  std::string page_token;
  for (int looked_at = 0; looked_at < kMaxLookedAt; looked_at += kPage) {
    // The order is by time and not by number, because an import gives new numbers to old runs.
    ASSIGN_OR_RETURN(
        MeasurementPage page,
        rows.recorder().ListMeasurements(filter, MeasurementOrder::kLatest, kPage, page_token));
    for (MeasurementRecord& run : page.measurements) {
      if (!DeviationOf(run).has_value()) continue;
      ASSIGN_OR_RETURN(const MeasuredRow measured, rows.Read(run));
      if (!measured.row.has_value()) continue;
      runs.push_back(std::move(run));
      if (std::ssize(runs) == kMaxDriftRuns) return runs;
    }
    page_token = std::move(page.next_page_token);
    if (page_token.empty()) break;
  }
  return runs;
}

}  // namespace

std::optional<Drift> FindDrift(std::span<const MeasurementRecord> newest_first) {
  Drift drift;
  double deviations = 0;
  double log_ratios = 0;
  for (const MeasurementRecord& run : newest_first) {
    const std::optional<double> deviation = DeviationOf(run);
    if (!deviation.has_value()) continue;
    deviations += *deviation;
    log_ratios += std::log(*run.step_time / *run.expected.step_time);
    if (++drift.run_count == kMaxDriftRuns) break;
  }
  if (drift.run_count < kLeastDriftRuns) return std::nullopt;
  drift.mean_deviation = deviations / drift.run_count;
  drift.mean_ratio = std::exp(log_ratios / drift.run_count);
  drift.limit = std::max(kCentral80, kChance / std::sqrt(drift.run_count));
  return std::abs(drift.mean_deviation) > drift.limit ? std::optional(drift) : std::nullopt;
}

absl::StatusOr<std::optional<std::string>> DriftWarning(
    MeasuredRows& rows, std::string_view chip, std::string_view framework,
    std::optional<std::int64_t> up_to_sequence) {
  const MeasurementFilter filter = {
      .chip = std::string(chip),
      .framework = std::string(framework),
      .sources = {MeasurementSource::kTrial, MeasurementSource::kJobReport},
      .outcome = Outcome::kOk,
      .up_to_sequence = up_to_sequence,
      .has_interval = true,
      .is_retracted = false,
      .retracted_up_to = up_to_sequence};
  ASSIGN_OR_RETURN(const std::vector<MeasurementRecord> runs, NewestRuns(rows, filter));
  const std::optional<Drift> drift = FindDrift(runs);
  if (!drift.has_value()) return std::nullopt;
  return fmt::format(
      "drift: the newest {} runs on {} under {} took {:.2f} times their expected step times, which "
      "is {:+.1f} standard deviations of their intervals on average; the limit is {:.2f}. "
      "Something "
      "that the history does not record has changed (driver, firmware, network, framework), or "
      "these runs are of a new kind",
      drift->run_count, chip, framework, drift->mean_ratio, drift->mean_deviation, drift->limit);
}

}  // namespace meshwright

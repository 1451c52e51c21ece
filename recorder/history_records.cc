#include "recorder/history_records.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/run_limits.h"

namespace meshwright {

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

namespace {

// Checks that the id can be shown on a terminal, and that no text is too long.
absl::Status CheckTexts(const MeasurementRecord& measurement) {
  constexpr std::size_t kLongestId = 100;
  const auto is_of_id = [](char c) { return c >= ' ' && c <= '~'; };
  std::string id = measurement.id;
  if (id.empty() || id.size() > kLongestId || !std::ranges::all_of(id, is_of_id)) {
    id.resize(std::min(id.size(), kLongestId));
    std::ranges::replace_if(id, std::not_fn(is_of_id), '?');
    return absl::InvalidArgumentError(fmt::format(
        "measurement id = '{}'; must be 1 to {} printable characters of ASCII", id, kLongestId));
  }
  if (std::max(measurement.job_name.size(), measurement.note.size()) > kMaxMeasurementText) {
    return absl::InvalidArgumentError(fmt::format(
        "measurement '{}': job_name or note has more than {} bytes", id, kMaxMeasurementText));
  }
  return absl::OkStatus();
}

// Checks that the present figures are valid.
absl::Status CheckFigures(const MeasurementRecord& measurement) {
  const auto check = [&](const char* name, double value, bool is_fine) -> absl::Status {
    if (is_fine && std::isfinite(value)) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("measurement '{}': {} = {}; must be a positive figure or absent",
                    measurement.id, name, value));
  };
  const auto time = [&](const char* name, const std::optional<Seconds>& value) {
    return check(name, value.value_or(Seconds(1)).count(), value.value_or(Seconds(1)).count() > 0);
  };
  const auto memory = [&](const char* name, const std::optional<Bytes>& value) {
    const std::int64_t count = value.value_or(Bytes{1}).count;
    return check(name, static_cast<double>(count), count > 0);
  };
  const ExpectedFigures& expected = measurement.expected;
  const double device_time = measurement.device_time.count();
  RETURN_IF_ERROR(memory("peak_memory_bytes", measurement.peak_memory));
  RETURN_IF_ERROR(time("expected_step_time_seconds", expected.step_time));
  RETURN_IF_ERROR(time("expected_low_seconds", expected.low));
  RETURN_IF_ERROR(time("expected_high_seconds", expected.high));
  RETURN_IF_ERROR(memory("expected_peak_memory_bytes", expected.peak_memory));
  return check("device_seconds", device_time, device_time >= 0);
}

// Refuses values that no run can have measured, which usually have the wrong unit.
absl::Status CheckMeasured(const MeasurementRecord& measurement) {
  const auto refuse = [&](const char* name, const std::optional<std::string>& mistake) {
    if (!mistake.has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("measurement '{}': {} = {}", measurement.id, name, *mistake));
  };
  if (measurement.step_time > Seconds(0)) {
    RETURN_IF_ERROR(
        refuse("step_time_seconds", StepTimeMistake(*measurement.step_time, Seconds(0))));
  }
  if (!measurement.peak_memory.has_value()) return absl::OkStatus();
  return refuse("peak_memory_bytes", PeakMemoryMistake(*measurement.peak_memory));
}

absl::Status CheckRetraction(const MeasurementRecord& measurement) {
  if (!measurement.retraction.has_value()) return absl::OkStatus();
  const auto mistake = RetractionReasonMistake(measurement.retraction->reason);
  if (!mistake.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("measurement '{}': reason of its retraction = {}", measurement.id, *mistake));
}

}  // namespace

std::optional<std::string> RetractionReasonMistake(std::string_view reason) {
  if (reason.find_first_not_of(' ') == std::string_view::npos) {
    return fmt::format("\"{}\"; must say why, in 1 to {} bytes", reason.substr(0, 1),
                       kMaxMeasurementText);
  }
  if (reason.size() > kMaxMeasurementText) {
    return fmt::format("{} bytes; must be at most {}", reason.size(), kMaxMeasurementText);
  }
  return TextMistake(reason, TextLayout::kOneLine);
}

absl::Status Validate(const MeasurementRecord& measurement) {
  RETURN_IF_ERROR(CheckTexts(measurement));
  RETURN_IF_ERROR(CheckFigures(measurement));
  RETURN_IF_ERROR(CheckMeasured(measurement));
  RETURN_IF_ERROR(CheckRetraction(measurement));
  const bool has_time = measurement.step_time.has_value() && *measurement.step_time > Seconds(0);
  if (measurement.outcome == Outcome::kOk && !has_time) {
    return absl::InvalidArgumentError(fmt::format(
        "measurement '{}': step_time = {}; must be > 0 with outcome ok", measurement.id,
        measurement.step_time.has_value() ? fmt::format("{} s", measurement.step_time->count())
                                          : "absent"));
  }
  return absl::OkStatus();
}

}  // namespace meshwright

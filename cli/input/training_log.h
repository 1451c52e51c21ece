#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"

namespace meshwright {

// The steps of a training job, as its log has them.
struct LoggedRun {
  std::string format = {};  // that the log's lines have
  int step_count = 0;       // lines with the time of a step that count
  int warmup_count = 0;     // lines with the time of a step that do not count, as the job warmed up
  Seconds step_time = Seconds(0);         // median
  std::optional<Bytes> peak_memory = {};  // largest of all lines; absent: the log has none
};

// How to read a log.
struct LogOptions {
  std::string format = {};  // one of LogFormats(); empty: the first that finds the time of a step
  int warmup_steps = 5;     // steps up to this number do not count, nor does the first line
  // For lines that have samples per second, and tokens per second and device.
  std::optional<int> global_batch_size = {};
  std::optional<int> sequence_length = {};
  std::optional<int> device_count = {};
};

// Returns the formats of logs that are known, in the order in which they are tried. They are those
// of the harness with one regular expression for each kind of line
// (workloads/measure/formats.json).
std::vector<std::string> LogFormats();

// Reads a log. A step that is printed again, by another rank or after a restart, counts once. All
// times are of the first kind of line that has one, so that no step counts twice. Returns
// INVALID_ARGUMENT for the field "log_format" if the format is unknown, and for the field "log" if
// no step is left that counts.
absl::StatusOr<LoggedRun> ReadTrainingLog(std::string_view text, const LogOptions& options);

}  // namespace meshwright

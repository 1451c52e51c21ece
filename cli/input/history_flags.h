#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwright/v1/history.pb.h"

namespace CLI {
class App;
}

namespace meshwright {

// Filters of measurements; an empty text does not filter.
struct MeasurementFlags {
  std::string chip = {};
  std::string framework = {};
  std::string model_name = {};
  std::string study_id = {};
  std::string outcome = {};
  std::optional<std::int64_t> up_to_sequence = {};
  std::optional<bool> is_retracted = {};
  int page_size = 0;  // 0: the store's own
  std::string page_token = {};
};

// Add options to a command. `flags` must outlive `command`.
void AddFilterOptions(CLI::App& command, MeasurementFlags& flags);
void AddPageOptions(CLI::App& command, MeasurementFlags& flags);
void AddMeasurementOptions(CLI::App& command, MeasurementFlags& flags);  // filters and pages

absl::StatusOr<v1::MeasurementFilter> FilterOf(const MeasurementFlags& flags,
                                               std::string_view site_chips);

}  // namespace meshwright

#include "server/convert/workload_settings_wire.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/workload.h"
#include "search_space/spec/workload_settings.h"
#include "server/convert/convert.h"

namespace meshwright {

absl::Status SetSettings(const v1::RankedPlan& plan, v1::Workload& workload) {
  // Answers of earlier versions have only the precision.
  if (plan.has_precision()) workload.set_precision(plan.precision());
  WorkloadRequest chosen;
  std::vector<FieldViolation> unknown;
  for (const v1::WorkloadSetting& setting : plan.settings()) {
    const auto row =
        std::ranges::find(kWorkloadSettings, setting.field(), &WorkloadSettingRow::field);
    const std::string field = fmt::format("settings.{}", setting.field());
    if (row == kWorkloadSettings.end()) {
      unknown.push_back({.field = field,
                         .description = fmt::format("\"{}\"; this program knows no such setting, "
                                                    "a newer one wrote the answer",
                                                    setting.value())});
    } else if (const std::optional<int> code = row->code(setting.value())) {
      row->state(chosen, *code);
    } else {
      unknown.push_back(
          {.field = field,
           .description = fmt::format("\"{}\"; must be one of {}", setting.value(), row->words())});
    }
  }
  if (!unknown.empty()) return InvalidFields(unknown);
  workload.MergeFrom(ToWire(chosen));
  return absl::OkStatus();
}

}  // namespace meshwright

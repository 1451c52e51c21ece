#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "vendor_models/chip_file.h"

namespace meshwright {

// `base` with the constants that `measurements` teach; what they say nothing of stays as it is.
// Peaks and bandwidths that are published stay too: efficiencies are shares of them. `name` is kept
// as the source of each figure. INVALID_ARGUMENT where a figure would leave the range that chip
// files allow, and where what was measured cannot be this chip by its published figures.
absl::StatusOr<ChipCalibration> CalibrateChip(const ChipEntry& base,
                                              const ChipMeasurements& measurements,
                                              std::string_view name);

// Whether plans can be trusted to the calibrated chip: every operator that plans need was measured,
// with points enough to hold some out, and is good. Otherwise what stands in the way, each in a few
// words.
std::vector<std::string> WhyNotReady(const ChipCalibration& calibration);
bool IsReady(const ChipCalibration& calibration);

}  // namespace meshwright

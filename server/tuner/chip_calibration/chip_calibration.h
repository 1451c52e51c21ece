#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "vendor_models/chip_file.h"

namespace meshwright {

// Returns `base` with the constants that `measurements` teach; figures that they say nothing about
// are unchanged. Published peaks and bandwidths are unchanged too: efficiencies are shares of them.
// `name` is stored as the source of each figure. Returns INVALID_ARGUMENT if a figure would leave
// the range that chip files allow, or if the measurements cannot be of this chip, judged by its
// published figures.
absl::StatusOr<ChipCalibration> CalibrateChip(const ChipEntry& base,
                                              const ChipMeasurements& measurements,
                                              std::string_view name);

// WhyNotReady returns, in a few words each, the reasons not to plan with the calibrated chip.
// IsReady returns true if there are none: every operator that plans need was measured at enough
// points to hold some out, and is good.
std::vector<std::string> WhyNotReady(const ChipCalibration& calibration);
bool IsReady(const ChipCalibration& calibration);

}  // namespace meshwright

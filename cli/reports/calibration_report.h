#pragma once

#include <string>

#include "meshwright/v1/calibration.pb.h"

namespace meshwright {

// Returns what `calibrate` prints for people.
std::string CalibrationReportText(const v1::ChipCalibration& calibration);

}  // namespace meshwright

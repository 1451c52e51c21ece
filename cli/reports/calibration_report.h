#pragma once

#include <string>

#include "meshwright/v1/calibration.pb.h"

namespace meshwright {

// Returns what `calibrate` prints for people, in lines of at most `columns` columns.
std::string CalibrationReportText(const v1::ChipCalibration& calibration, int columns);

}  // namespace meshwright

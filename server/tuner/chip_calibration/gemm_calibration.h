#pragma once

#include "server/tuner/chip_calibration/calibration_work.h"

namespace meshwright {

// Peaks that are published, and that GEMMs cannot have reached or missed so.
std::vector<FieldViolation> ImplausibleGemms(const CalibrationWork& work);

// Peaks that nobody has published, the constants of the leading precision, and tables of residuals.
void FitGemms(CalibrationWork& work);

}  // namespace meshwright

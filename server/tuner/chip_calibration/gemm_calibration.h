#pragma once

#include "server/tuner/chip_calibration/calibration_work.h"

namespace meshwright {

// Of each precision whose peak is published.
std::vector<ReachedRate> ReachedByGemms(const CalibrationWork& work);

// Peaks that nobody has published, the constants of the leading precision, and tables of residuals.
void FitGemms(CalibrationWork& work);

}  // namespace meshwright

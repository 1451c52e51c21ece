#pragma once

#include "server/tuner/chip_calibration/calibration_work.h"

namespace meshwright {

// Returns the reached rate of each precision that has a published peak.
std::vector<ReachedRate> ReachedByGemms(const CalibrationWork& work);

// Fits unpublished peaks, the constants of the leading precision, and tables of residuals.
void FitGemms(CalibrationWork& work);

}  // namespace meshwright

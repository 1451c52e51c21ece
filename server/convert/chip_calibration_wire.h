#pragma once

#include "meshwright/v1/calibration.pb.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"

namespace meshwright {

// Converts a calibration, but leaves out its steps, which the caller compares with estimates.
v1::ChipCalibration ToWire(const ChipCalibration& calibration);

}  // namespace meshwright

#pragma once

#include "server/tuner/chip_calibration/calibration_work.h"

namespace meshwright {

// Fits the constants of the chip's own fused kernel. If FlashAttention 2 was measured on the same
// shapes, its relative speed is taken from these. If only FlashAttention 2 was measured, the own
// kernel's constants follow from it through the relative speed that the chip file states.
void FitAttentionKernels(CalibrationWork& work);

}  // namespace meshwright

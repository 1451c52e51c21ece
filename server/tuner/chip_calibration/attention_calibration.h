#pragma once

#include "server/tuner/chip_calibration/calibration_work.h"

namespace meshwright {

// Fits the constants of the chip's own fused kernel. If FlashAttention 2 was measured beside it,
// its relative speed is taken from the same shapes; if it alone was measured, it is the one that is
// fitted.
void FitAttentionKernels(CalibrationWork& work);

}  // namespace meshwright

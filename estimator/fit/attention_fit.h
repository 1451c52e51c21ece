#pragma once

#include <span>

#include "estimator/fit/measured.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

// Fits the constants of fused attention (docs/cost_model/attention.md) to the points: forward
// points give the rate, the others the extra time of the backward pass. All other constants are
// those of `chip`, which has the peaks of the points' precisions. Constants of a pass, or of small
// heads, that no point has stay as they are.
AttentionModel FitAttention(std::span<const MeasuredAttention> points, const ChipSpec& chip);

// Returns the modelled time of a point.
Seconds AttentionTime(const MeasuredAttention& point, const ChipSpec& chip);

// Returns the error at head counts and sequence lengths that the fit had not seen, in five rounds.
FitError AttentionHeldOutError(std::span<const MeasuredAttention> points, const ChipSpec& chip);

}  // namespace meshwright

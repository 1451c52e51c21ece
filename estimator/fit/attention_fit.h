#pragma once

#include <span>

#include "estimator/fit/measured.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {

// The constants of fused attention (docs/cost_model.md "Attention") that come nearest to the
// points: forward ones give the rate, the others what the backward pass takes on top. The rest is
// `chip`'s, which has the peaks of their precisions. Nothing is fitted to a pass, or to small
// heads, that `points` do not have.
AttentionModel FitAttention(std::span<const MeasuredAttention> points, const ChipSpec& chip);

// Modelled time of a point.
Seconds AttentionTime(const MeasuredAttention& point, const ChipSpec& chip);

// Of head counts and sequence lengths that the fit had not seen, in five rounds.
FitError AttentionHeldOutError(std::span<const MeasuredAttention> points, const ChipSpec& chip);

}  // namespace meshwright

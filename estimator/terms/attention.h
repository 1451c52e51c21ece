#pragma once

#include "estimator/terms/kernel.h"
#include "estimator/terms/matmul.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// Returns the forward FLOPs of the scores and of their product with the values: causal (half the
// square) or within the window (FlashAttention-2, arXiv 2307.08691, section 4).
Flops AttentionFlops(const AttentionShape& shape);

// Returns the forward time of a fused attention kernel: docs/cost_model/attention.md.
Seconds FusedAttentionTime(const AttentionShape& shape, AttentionKernel kernel,
                           const ChipSpec& chip, const DeviceRates& rates);

// Returns its backward time: the forward form with the constants of the backward pass.
Seconds FusedAttentionBackwardTime(const AttentionShape& shape, AttentionKernel kernel,
                                   const ChipSpec& chip, const DeviceRates& rates);

}  // namespace meshwright

#include "estimator/terms/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Speed of FlashAttention 1 relative to 2 (FlashAttention-2, arXiv 2307.08691, abstract: "around
// 2x"; its figure 5 shows 1.5 to 1.7 at training lengths).
constexpr double kFlash1Ratio = 0.6;
constexpr double kSmallHead = 96;
constexpr double kQueryTile = 128;

double KernelRatio(AttentionKernel kernel, const AttentionModel& model) {
  switch (kernel) {
    case AttentionKernel::kFlash1:
      return kFlash1Ratio * model.flash2_ratio;
    case AttentionKernel::kFlash2:
      return model.flash2_ratio;
    case AttentionKernel::kUnfused:
    case AttentionKernel::kFusedSoftmax:
    case AttentionKernel::kFlash3:
    case AttentionKernel::kCudnn:
    case AttentionKernel::kVendor:
      return 1;
  }
  std::abort();
}

}  // namespace

Flops AttentionFlops(const AttentionShape& s) {
  // Causal: query i of S attends to i keys, on average half of key_tokens. Window w < S: the share
  // z = w/S (1 - w/(2S)) of the square (docs/cost_model/attention.md).
  double share = 0.5;
  if (s.window > 0 && s.window < s.key_tokens) {
    const double w = s.window / s.key_tokens;
    share = w * (1 - w / 2);
  }
  return {4 * s.batch * s.heads * s.head_dim * s.query_tokens * s.key_tokens * share};
}

namespace {

// Returns the time of the pass that `model` describes.
Seconds AttentionPassTime(const AttentionShape& s, AttentionKernel kernel, const ChipSpec& chip,
                          const AttentionModel& model, const DeviceRates& rates) {
  const double cores = chip.core_count > 0 ? chip.core_count : 100;
  const double waves = s.batch * s.heads * std::ceil(s.query_tokens / kQueryTile) / cores;
  double efficiency =
      model.efficiency * waves / (waves + model.wave_half) * KernelRatio(kernel, model);
  if (s.head_dim <= kSmallHead) efficiency *= model.small_head_ratio;
  const double ramp = 1 + model.sequence_half / std::max(1.0, s.key_tokens);
  const double compute = AttentionFlops(s).count * ramp / (rates.peak.rate * efficiency);
  const double bytes = 2 * s.batch * s.heads * s.head_dim * (2 * s.query_tokens + 2 * s.key_tokens);
  const double memory = bytes / (chip.memory_bandwidth.rate * chip.memory_bound_efficiency);
  return chip.memory_bound_fixed + Seconds(std::max(compute * rates.power_time_ratio, memory));
}

}  // namespace

Seconds FusedAttentionTime(const AttentionShape& s, AttentionKernel kernel, const ChipSpec& chip,
                           const DeviceRates& rates) {
  return AttentionPassTime(s, kernel, chip, chip.attention, rates);
}

Seconds FusedAttentionBackwardTime(const AttentionShape& s, AttentionKernel kernel,
                                   const ChipSpec& chip, const DeviceRates& rates) {
  AttentionModel model = chip.attention;
  model.sequence_half = model.backward_sequence_half.value_or(model.sequence_half);
  model.wave_half = model.backward_wave_half.value_or(model.wave_half);
  return AttentionPassTime(s, kernel, chip, model, rates) * model.backward_time_ratio;
}

}  // namespace meshwright

#include "server/tuner/chip_calibration/attention_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "estimator/fit/attention_fit.h"
#include "estimator/fit/fit_error.h"
#include "estimator/fit/measured.h"
#include "estimator/terms/matmul.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/chip_draft.h"

namespace meshwright {
namespace {

// Attention is poor if the median of its held-out errors exceeds this limit.
constexpr double kAttentionLimit = 0.10;

// Returns the points of the narrowest precision that training uses, since the constants are shares
// of one peak.
std::vector<MeasuredAttention> AttentionOfOnePrecision(CalibrationWork& work) {
  std::vector<MeasuredAttention> points;
  for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp32}) {
    std::ranges::copy_if(
        work.measured.attention, std::back_inserter(points),
        [precision](const MeasuredAttention& p) { return p.precision == precision; });
    if (!points.empty()) return points;
  }
  return work.measured.attention;
}

void SetAttentionFigures(CalibrationWork& work, const AttentionModel& model,
                         const FigureOrigin& origin) {
  Figures figures = {{"attention_efficiency_ratio", model.efficiency},
                     {"attention_sequence_half_tokens", model.sequence_half},
                     {"attention_wave_half", model.wave_half},
                     {"attention_small_head_ratio", model.small_head_ratio},
                     {"attention_backward_time_ratio", model.backward_time_ratio}};
  if (model.backward_sequence_half.has_value()) {
    figures.emplace_back("attention_backward_sequence_half_tokens", *model.backward_sequence_half);
  }
  if (model.backward_wave_half.has_value()) {
    figures.emplace_back("attention_backward_wave_half", *model.backward_wave_half);
  }
  SetAll(work, figures, origin);
}

bool IsFlash2(const MeasuredAttention& p) { return p.kernel == AttentionKernel::kFlash2; }

// Returns the speed of FlashAttention 2 relative to the chip's own kernel, or nullopt if not both
// were measured on the same shapes.
std::optional<double> Flash2Ratio(std::span<const MeasuredAttention> points) {
  std::vector<double> ratios;
  for (const MeasuredAttention& flash2 : points) {
    if (!IsFlash2(flash2)) continue;
    const auto own = std::ranges::find_if(points, [&flash2](const MeasuredAttention& p) {
      return !IsFlash2(p) && p.is_backward == flash2.is_backward && p.shape == flash2.shape;
    });
    if (own != points.end()) ratios.push_back(own->time / flash2.time);
  }
  if (ratios.empty()) return std::nullopt;
  std::ranges::sort(ratios);
  return ratios[ratios.size() / 2];
}

// Keeps the points of the chip's own kernel, to which its constants belong, and takes the speed of
// FlashAttention 2 from the others.
void FitFlash2Ratio(CalibrationWork& work, std::vector<MeasuredAttention>& points) {
  const std::optional<double> ratio = Flash2Ratio(points);
  if (!ratio.has_value()) return;
  SetFound(work, {.name = "attention_flash2_ratio", .value = *ratio},
           {.provenance = Provenance::kMeasured,
            .what = "time of the chip's own kernel over FlashAttention 2, median"});
  std::erase_if(points, IsFlash2);
}

}  // namespace

void FitAttentionKernels(CalibrationWork& work) {
  if (work.measured.attention.empty()) {
    AddMissing(work, "attention", "attention");
    // CPUs run attention as GEMMs and a softmax. Accelerators have a fused kernel, even if this
    // PyTorch does not reach it.
    const bool has_none =
        work.measured.device == "cpu" && work.measured.has_fused_attention == false;
    work.result.operators.back().is_needed = !has_none;
    return;
  }
  std::vector<MeasuredAttention> points = AttentionOfOnePrecision(work);
  const Precision precision = points.front().precision;
  if (!NominalPeak(work.spec(), precision).has_value()) {
    work.result.operators.push_back(
        {.name = "attention",
         .detail = std::string(Word(precision)),
         .point_count = static_cast<int>(points.size()),
         .advice = fmt::format("the chip has no peak for {}, in which it was measured: the "
                               "figures are unchanged",
                               Word(precision))});
    return;
  }
  FitFlash2Ratio(work, points);
  const FitError before = Errors<MeasuredAttention>(
      points, [&work](const MeasuredAttention& p) { return AttentionTime(p, work.spec()); });
  const FitError error = AttentionHeldOutError(points, work.spec());
  const OperatorVerdict verdict = VerdictOf(error, kAttentionLimit);
  SetAttentionFigures(work, FitAttention(points, work.spec()),
                      OriginOf(Provenance::kFitted, ErrorText(error), verdict));
  work.result.operators.push_back({.name = "attention",
                                   .detail = std::string(Word(precision)),
                                   .point_count = static_cast<int>(points.size()),
                                   .before = before,
                                   .held_out = error,
                                   .limit_ratio = kAttentionLimit,
                                   .verdict = verdict});
}

}  // namespace meshwright

#include "server/tuner/chip_calibration/calibration_work.h"

#include <fmt/format.h>

#include <algorithm>

#include "estimator/fit/measured.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Limits on the reached share of a published peak or bandwidth. The chips of vendor_models/chips
// whose fastest GEMM or copy is public reached 0.51 to 1.03 of it; boost clocks above the one that
// the peak is stated for allow a little more. Measuring a host's core instead of an accelerator, or
// writing seconds for milliseconds, gives far less than the least; halved times give more than the
// most.
constexpr double kLeastReached = 0.05;
constexpr double kMaxReached = 1.1;

}  // namespace

std::optional<FieldViolation> Implausible(const ReachedRate& reached, bool is_quick) {
  const double ratio = reached.measured / reached.published;
  // A quick run's few points are small.
  if (ratio <= kMaxReached && (is_quick || ratio >= kLeastReached)) return std::nullopt;
  return FieldViolation{
      .field = fmt::format("items.{}", reached.item),
      .description = fmt::format(
          "{:.4g} a second in {}, {:.3g} times the published {} of {:.4g}; must be {} to {} times: "
          "was it measured on another chip, or are its times or sizes in other units?",
          reached.measured, reached.what, ratio, reached.figure, reached.published, kLeastReached,
          kMaxReached)};
}

std::string NumberText(double value) { return fmt::format("{:.6g}", value); }

std::string ErrorText(const FitError& error) {
  if (error.point_count == 0) return "nothing held out";
  return fmt::format("held-out error {:.1f} / {:.1f} % of {}", 100 * error.median_ratio,
                     100 * error.p90_ratio, error.point_count);
}

OperatorVerdict VerdictOf(const FitError& error, double limit) {
  if (error.point_count == 0) return OperatorVerdict::kTooFew;
  const bool is_good =
      error.median_ratio <= limit && error.p90_ratio <= kP90OverMedianLimit * limit;
  return is_good ? OperatorVerdict::kGood : OperatorVerdict::kPoor;
}

FigureOrigin OriginOf(Provenance provenance, std::string what, OperatorVerdict verdict) {
  FigureOrigin origin = {.provenance = provenance, .what = std::move(what)};
  if (verdict == OperatorVerdict::kTooFew) origin.confidence = Confidence::kMedium;
  if (verdict == OperatorVerdict::kPoor) origin.confidence = Confidence::kLow;
  return origin;
}

void SetAll(CalibrationWork& work, const Figures& figures, const FigureOrigin& origin) {
  for (const auto& [name, value] : figures) work.draft.Set(name, NumberText(value), origin);
}

void AddMissing(CalibrationWork& work, std::string_view name, std::string_view item) {
  const auto state = std::find_if(work.measured.items.begin(), work.measured.items.end(),
                                  [item](const ItemState& s) { return s.name == item; });
  std::string why = "is not in the file";
  if (state != work.measured.items.end()) {
    const bool is_measured = state->status == "measured";
    why = fmt::format("{}{}", is_measured ? "has no usable row" : state->status,
                      state->reason.empty() ? "" : fmt::format(" ({})", state->reason));
  }
  work.result.operators.push_back(
      {.name = std::string(name),
       .verdict = OperatorVerdict::kAssumed,
       .advice = fmt::format("item {} {}: the figures are unchanged", item, why)});
}

}  // namespace meshwright

#include "server/tuner/chip_calibration/calibration_work.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "estimator/fit/measured.h"
#include "search_space/spec/choices.h"
#include "vendor_models/figure_table.h"

namespace meshwright {
namespace {

// Limits on the reached share of a published peak or bandwidth. The chips of vendor_models/chips
// whose fastest GEMM or copy is public reached 0.51 to 1.03 of it; boost clocks above the one that
// the peak is stated for allow a little more. Measuring a host's core instead of an accelerator, or
// writing seconds for milliseconds, gives far less than the least; halved times give more than the
// most.
constexpr double kLeastReached = 0.05;
constexpr double kMaxReached = 1.1;

// Returns true for the shares of a bandwidth or of a peak. Few GEMMs leave their own shares
// undetermined, which is a warning (FiguresAtTheEdge).
bool IsShare(std::string_view figure) {
  return figure.ends_with("efficiency_ratio") && !figure.starts_with("gemm_");
}

// Returns the refusal of a value that no chip file may hold.
std::optional<RefusedFigure> RefusalOf(const FoundFigure& found) {
  const auto& all = NumberFigures();
  const auto row = std::ranges::find(all, found.name, &NumberFigure::key);
  if (row == all.end()) return std::nullopt;  // ChipDraft has no such figure either
  const double edge = IsShare(found.name) ? 1e-6 : 0;
  if (found.value >= row->low * (1 + edge) && found.value <= row->high * (1 - edge)) {
    return std::nullopt;
  }
  return RefusedFigure{.name = std::string(found.name),
                       .value = found.text.empty() ? NumberText(found.value) : found.text,
                       .low = row->low,
                       .high = row->high,
                       .is_at_edge = found.value >= row->low && found.value <= row->high,
                       .item = std::string(ItemOf(found.name)),
                       .size = found.size};
}

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

bool SetFound(CalibrationWork& work, const FoundFigure& found, const FigureOrigin& origin) {
  auto refusal = RefusalOf(found);
  if (refusal.has_value()) {
    work.result.refused.push_back(*std::move(refusal));
    return false;
  }
  work.draft.Set(found.name, found.text.empty() ? NumberText(found.value) : found.text, origin);
  return true;
}

bool SetAll(CalibrationWork& work, const Figures& figures, const FigureOrigin& origin) {
  const std::size_t refused_before = work.result.refused.size();
  for (const auto& [name, value] : figures) {
    auto refusal = RefusalOf({.name = name, .value = value});
    if (refusal.has_value()) work.result.refused.push_back(*std::move(refusal));
  }
  if (work.result.refused.size() > refused_before) return false;
  for (const auto& [name, value] : figures) work.draft.Set(name, NumberText(value), origin);
  return true;
}

std::string_view ItemOf(std::string_view figure) {
  static constexpr std::pair<std::string_view, std::string_view> kItems[] = {
      {"stream_", "memory"},
      {"memory_bandwidth_", "memory"},
      {"measured_memory_", "memory"},
      {"memory_bound_", "elementwise"},
      {"cache_", "elementwise"},
      {"attention_", "attention"},
      {"sustained_", "sustained_gemm"},
      {"scale_up_", "collectives"},
      {"host_link_", "host_link"},
      {"overlap_", "overlap"},
      {"runtime_", "device"}};
  for (const auto& [beginning, item] : kItems) {
    if (figure.starts_with(beginning)) return item;
  }
  return "gemm";  // its constants and the peaks
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

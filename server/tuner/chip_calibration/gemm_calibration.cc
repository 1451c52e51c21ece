#include "server/tuner/chip_calibration/gemm_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "estimator/fit/fit_error.h"
#include "estimator/fit/gemm_fit.h"
#include "estimator/fit/measured.h"
#include "estimator/terms/matmul.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "server/tuner/chip_calibration/calibrated_chip.h"
#include "server/tuner/chip_calibration/chip_draft.h"
#include "server/tuner/chip_calibration/measurements.h"
#include "vendor_models/residual_table.h"

namespace meshwright {
namespace {

// Above this median of held-out errors GEMM is poor (docs/chips.md).
constexpr char kMoreShapes[] =
    "measure 200 more shapes, for a table of residuals: microbench.py --only gemm --gemm-shapes "
    "232";
constexpr double kGemmLimit = 0.08;

constexpr int kShapesOfATable =
    100;  // shapes per pass above which a table of residuals is worthwhile

using GemmsByPrecision = std::map<Precision, std::vector<MeasuredGemm>>;

GemmsByPrecision ByPrecision(const ChipMeasurements& measured) {
  GemmsByPrecision by_precision;
  for (const MeasuredGemm& g : measured.gemms) by_precision[g.precision].push_back(g);
  return by_precision;
}

std::string PeakKey(Precision precision) {
  return fmt::format("peak_{}_flops_per_second", Word(precision));
}

double BestRate(std::span<const MeasuredGemm> gemms) {
  double best = 0;
  for (const MeasuredGemm& g : gemms) {
    best = std::max(best, 2 * g.shape.m * g.shape.n * g.shape.k * g.shape.count / g.time.count());
  }
  return best;
}

// Returns the half precision with the higher nominal peak, or nullopt if the chip has neither.
std::optional<Precision> HalfOf(const ChipSpec& chip) {
  const auto bf16 = NominalPeak(chip, Precision::kBf16);
  const auto fp16 = NominalPeak(chip, Precision::kFp16);
  if (!bf16.has_value() && !fp16.has_value()) return std::nullopt;
  const bool is_bf16 = bf16.has_value() && (!fp16.has_value() || bf16->rate >= fp16->rate);
  return is_bf16 ? Precision::kBf16 : Precision::kFp16;
}

// Records the best measured rate, which also becomes the peak if none is published.
void SetPeak(CalibrationWork& work, Precision precision, std::span<const MeasuredGemm> gemms) {
  const std::string key = PeakKey(precision);
  const std::string measured_key = "measured_" + key;
  const double rate = BestRate(gemms);
  FoundFigure best = {.name = measured_key, .value = rate, .text = fmt::format("{:.4g}", rate)};
  const FigureOrigin origin = {.provenance = Provenance::kMeasured, .what = "the fastest GEMM"};
  SetFound(work, best, origin);
  best.name = key;
  if (!work.draft.IsPublished(key)) SetFound(work, best, origin);
}

// Returns the precision with the highest measured rate among those of 16 bits and more.
Precision Leading(const GemmsByPrecision& by_precision) {
  Precision leading = by_precision.begin()->first;
  double best = 0;
  for (const auto& [precision, gemms] : by_precision) {
    if (precision == Precision::kFp8) continue;
    const double rate = BestRate(gemms);
    if (rate > best) {
      best = rate;
      leading = precision;
    }
  }
  return leading;
}

bool IsHalf(Precision precision) {
  return precision == Precision::kBf16 || precision == Precision::kFp16;
}

std::vector<MeasuredGemm> Single(const std::vector<MeasuredGemm>& gemms) {
  std::vector<MeasuredGemm> single;
  for (const MeasuredGemm& g : gemms) {
    if (g.shape.count == 1) single.push_back(g);
  }
  return single;
}

FitError ErrorBefore(CalibrationWork& work, const std::vector<MeasuredGemm>& gemms) {
  std::vector<double> errors;
  for (const MeasuredGemm& g : gemms) {
    if (!NominalPeak(work.before.spec, g.precision).has_value()) continue;
    errors.push_back(std::abs(GemmTime(g, work.before.spec) / g.time - 1));
  }
  return ErrorOf(std::move(errors));
}

void SetGemm(CalibrationWork& work, const GemmModel& g, const FigureOrigin& origin) {
  SetAll(work,
         {{"gemm_compute_efficiency_ratio", g.compute_efficiency},
          {"gemm_memory_efficiency_ratio", g.memory_efficiency},
          {"gemm_fixed_seconds", g.fixed.count()},
          {"gemm_intensity_half_ratio", g.intensity_half},
          {"gemm_fill_elements", g.fill},
          {"gemm_quantisation_ratio", g.quantisation},
          {"gemm_norm_exponent", g.norm_exponent},
          {"gemm_split_k_seconds", g.split_k.count()}},
         origin);
}

// Removes the tables of residuals. They hold measured over modelled times for constants that now
// change.
void RemoveTables(CalibrationWork& work) {
  for (const GemmResidualTable& table : work.spec().gemm_residuals) {
    const std::string name = ResidualTableName(table);
    work.draft.RemoveRow(name);
    work.result.warnings.push_back(name +
                                   " is removed, because its ratios belong to the old constants");
  }
  work.spec().gemm_residuals.clear();
}

void AddTable(CalibrationWork& work, Precision precision, const std::vector<MeasuredGemm>& single,
              const OperatorFit& fit) {
  GemmResidualTable table = {
      .precision = precision == Precision::kFp16 ? Precision::kBf16 : precision,
      .shapes = SummariseResiduals(single, work.spec())};
  const auto cut = std::erase_if(table.shapes, [](const GemmResidual& r) {
    return r.log_time_ratio < std::log(0.05) || r.log_time_ratio > std::log(20.0);
  });
  if (cut > 0) {
    work.result.warnings.push_back(fmt::format(
        "{} sizes of the {} table are left out: measured over modelled time is below 0.05 or "
        "above 20",
        cut, Word(precision)));
  }
  if (table.shapes.empty()) return;
  IndexShapes(table);
  work.draft.SetRow(ResidualTableName(table), fmt::format("{} shapes", table.shapes.size()),
                    OriginOf(Provenance::kMeasured, ErrorText(fit.held_out), fit.verdict));
  work.spec().gemm_residuals.push_back(std::move(table));
}

void FitLeadingGemm(CalibrationWork& work, Precision precision,
                    const std::vector<MeasuredGemm>& gemms) {
  OperatorFit fit = {.name = "gemm",
                     .detail = std::string(Word(precision)),
                     .point_count = static_cast<int>(gemms.size()),
                     .before = ErrorBefore(work, gemms),
                     .limit_ratio = kGemmLimit};
  RemoveTables(work);
  const bool with_table = static_cast<int>(gemms.size()) >= 3 * kShapesOfATable;
  fit.held_out = GemmHeldOutError(
      gemms, work.spec(), with_table ? GemmFitParts::kConstantsAndTable : GemmFitParts::kConstants);
  fit.verdict = VerdictOf(fit.held_out, kGemmLimit);
  if (fit.verdict == OperatorVerdict::kPoor && !with_table) {
    fit.advice = kMoreShapes;
  }
  const GemmModel fitted = FitGemm(gemms, work.spec());
  SetGemm(work, fitted, OriginOf(Provenance::kFitted, ErrorText(fit.held_out), fit.verdict));
  for (const std::string_view figure : FiguresAtTheEdge(fitted)) {
    work.result.warnings.push_back(fmt::format(
        "{} ended at the limit of its range: these shapes do not determine it", figure));
  }
  if (with_table) AddTable(work, precision, Single(gemms), fit);
  work.result.operators.push_back(std::move(fit));
}

// Adds a precision other than that of the constants, as a table of residuals. bf16 and fp16 share a
// table, so only the error of the second is reported.
void AddPrecision(CalibrationWork& work, Precision precision,
                  const std::vector<MeasuredGemm>& gemms, bool shares_table) {
  const std::vector<MeasuredGemm> single = Single(gemms);
  if (single.empty()) return;
  OperatorFit fit = {.name = "gemm",
                     .detail = std::string(Word(precision)),
                     .point_count = static_cast<int>(single.size()),
                     .before = ErrorBefore(work, single),
                     .limit_ratio = kGemmLimit,
                     .is_needed = false};
  // If the table is shared, it was not fitted to any of these points.
  fit.held_out =
      shares_table
          ? Errors<MeasuredGemm>(
                single, [&work](const MeasuredGemm& g) { return GemmTime(g, work.spec()); })
          : GemmHeldOutError(single, work.spec(), GemmFitParts::kTable);
  fit.verdict = VerdictOf(fit.held_out, kGemmLimit);
  if (fit.verdict == OperatorVerdict::kPoor && !shares_table) fit.advice = kMoreShapes;
  if (!shares_table) AddTable(work, precision, single, fit);
  work.result.operators.push_back(std::move(fit));
}

// Warns if the constants are fitted to a precision other than a faster half precision of the chip,
// since training would use that one.
void WarnOfPrecision(CalibrationWork& work, Precision leading) {
  const std::optional<Precision> half = HalfOf(work.before.spec);
  if (!half.has_value() || work.before.spec.peak.at(*half) <= *NominalPeak(work.spec(), leading)) {
    return;
  }
  if (IsHalf(leading) && work.before.spec.peak.contains(leading)) return;
  work.result.warnings.push_back(
      fmt::format("GEMM constants are fitted to {}, the fastest precision of the file, but the "
                  "chip's half precision is {}: microbench.py --precisions {},fp32",
                  Word(leading), Word(*half), Word(*half)));
}

}  // namespace

std::vector<ReachedRate> ReachedByGemms(const CalibrationWork& work) {
  std::vector<ReachedRate> all;
  for (const auto& [precision, gemms] : ByPrecision(work.measured)) {
    if (!work.draft.IsPublished(PeakKey(precision))) continue;
    const double published = work.before.spec.peak.at(precision).rate;
    ReachedRate reached = {.item = "gemm",
                           .what = fmt::format("the fastest {} GEMM", Word(precision)),
                           .measured = BestRate(gemms),
                           .figure = PeakKey(precision),
                           .published = published};
    // Libraries may run fp32 in a shorter format (TF32), whose peak is below that of 16 bits.
    const std::optional<Precision> half = HalfOf(work.before.spec);
    if (precision == Precision::kFp32 && reached.measured > published && half.has_value() &&
        work.draft.IsPublished(PeakKey(*half))) {
      reached.figure = PeakKey(*half);
      reached.published = std::max(published, work.before.spec.peak.at(*half).rate);
    }
    all.push_back(std::move(reached));
  }
  return all;
}

void FitGemms(CalibrationWork& work) {
  const GemmsByPrecision by_precision = ByPrecision(work.measured);
  if (by_precision.empty()) {
    AddMissing(work, "gemm", "gemm");
    return;
  }
  // The chip has one set of constants; other precisions get a table of residuals.
  const Precision leading = Leading(by_precision);
  for (const auto& [precision, gemms] : by_precision) SetPeak(work, precision, gemms);
  WarnOfPrecision(work, leading);
  FitLeadingGemm(work, leading, by_precision.at(leading));
  for (const auto& [precision, gemms] : by_precision) {
    if (precision == leading) continue;
    AddPrecision(work, precision, gemms, IsHalf(precision) && IsHalf(leading));
  }
}

}  // namespace meshwright

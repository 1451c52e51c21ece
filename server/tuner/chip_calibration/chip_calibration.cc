#include "server/tuner/chip_calibration/chip_calibration.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "estimator/fit/attention_fit.h"
#include "estimator/fit/collective_fit.h"
#include "estimator/fit/fit_error.h"
#include "estimator/fit/gemm_fit.h"
#include "estimator/fit/traffic_fit.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/matmul.h"
#include "estimator/terms/stream.h"
#include "fmt/format.h"
#include "search_space/status.h"
#include "vendor_models/chip_text.h"
#include "vendor_models/collective_row.h"
#include "vendor_models/residual_table.h"

namespace meshwright {
namespace {

// Above these medians of held-out errors an operator is poor. GEMM: chips.md 8, item 3.
constexpr double kGemmLimit = 0.08;
constexpr double kAttentionLimit = 0.10;
constexpr double kTrafficLimit = 0.25;  // one rate stands for norms, activations and losses
constexpr double kCollectiveLimit = 0.15;

constexpr int kShapesOfATable = 100;  // of a pass, from which a table of residuals says more

std::string NumberText(double value) { return fmt::format("{:.6g}", value); }

class ChipCalibrator {
 public:
  ChipCalibrator(const ChipEntry& base, const ChipMeasurements& measured, std::string_view name)
      : measured_(measured),
        before_(base),
        draft_(base, fmt::format("calibration {} on {}, PyTorch {}, {}", name, measured.device_name,
                                 measured.torch, measured.backend)) {
    result_.name = name;
  }

  absl::StatusOr<ChipCalibration> Calibrate() && {
    FitStreams();
    FitGemms();
    FitSustained();
    FitFusedAttention();
    FitElementwise();
    FitCollectives();
    FitLink();
    if (measured_.runtime_context.has_value()) {
      draft_.Set("runtime_context_bytes", fmt::format("{}", measured_.runtime_context->count),
                 Provenance::kMeasured, "");
    }
    WarnOfItems();
    if (IsReady(result_) && spec().confidence == Confidence::kLow) {
      spec().confidence = Confidence::kMedium;  // its times are measured now
    }
    // Reads it again as any chip file is read: ranges are checked, provenance is summed up.
    ASSIGN_OR_RETURN(result_.entry, ParseChipFile(spec().id, ChipFileText(draft_.entry())));
    result_.changes = draft_.changes();
    return std::move(result_);
  }

 private:
  ChipSpec& spec() { return draft_.spec(); }

  static std::string ErrorText(const FitError& error) {
    if (error.point_count == 0) return "nothing held out";
    return fmt::format("held-out error {:.1f} / {:.1f} % of {}", 100 * error.median_ratio,
                       100 * error.p90_ratio, error.point_count);
  }

  static OperatorVerdict Verdict(const FitError& error, double limit) {
    if (error.point_count == 0) return OperatorVerdict::kTooFew;
    return error.median_ratio <= limit ? OperatorVerdict::kGood : OperatorVerdict::kPoor;
  }

  void FitStreams() {
    double best = 0;
    for (const MeasuredStream& s : measured_.streams) {
      if (s.working_set.count < 2 * spec().cache.count) continue;  // runs from the cache
      best = std::max(best, static_cast<double>(s.bytes.count) / s.time.count());
    }
    if (best == 0 && !measured_.streams.empty()) {
      result_.operators.push_back(
          {.name = "stream",
           .point_count = static_cast<int>(measured_.streams.size()),
           .verdict = OperatorVerdict::kAssumed,
           .advice = fmt::format("no working set of {} bytes, twice the cache: "
                                 "microbench.py --only memory --again --max-bytes {}",
                                 2 * spec().cache.count, 2 * spec().cache.count)});
      return;
    }
    if (best == 0) {
      AddMissing("stream", "memory");
      return;
    }
    if (!draft_.IsPublished("memory_bandwidth_bytes_per_second")) {
      draft_.Set("memory_bandwidth_bytes_per_second", fmt::format("{:.4g}", best),
                 Provenance::kMeasured, "the fastest large copy");
    }
    draft_.Set("stream_efficiency_ratio", NumberText(best / spec().memory_bandwidth.rate),
               Provenance::kMeasured, "the fastest large copy over the nominal bandwidth");
    result_.operators.push_back({.name = "stream",
                                 .point_count = static_cast<int>(measured_.streams.size()),
                                 .verdict = OperatorVerdict::kGood});
  }

  // A peak that nobody published is the best rate that was measured.
  void SetPeak(Precision precision, std::span<const MeasuredGemm> gemms) {
    const std::string key = fmt::format("peak_{}_flops_per_second", Word(precision));
    if (draft_.IsPublished(key)) return;
    double best = 0;
    for (const MeasuredGemm& g : gemms) {
      best = std::max(best, 2 * g.shape.m * g.shape.n * g.shape.k * g.shape.count / g.time.count());
    }
    draft_.Set(key, fmt::format("{:.4g}", best), Provenance::kMeasured, "the fastest GEMM");
  }

  void FitGemms() {
    std::map<Precision, std::vector<MeasuredGemm>> by_precision;
    for (const MeasuredGemm& g : measured_.gemms) by_precision[g.precision].push_back(g);
    if (by_precision.empty()) {
      AddMissing("gemm", "gemm");
      return;
    }
    // The chip has one set of constants; other precisions get a table of what differs.
    const Precision leading = Leading(by_precision);
    for (const auto& [precision, gemms] : by_precision) SetPeak(precision, gemms);
    FitLeadingGemm(leading, by_precision.at(leading));
    for (const auto& [precision, gemms] : by_precision) {
      if (precision == leading) continue;
      AddPrecision(precision, gemms, IsHalf(precision) && IsHalf(leading));
    }
  }

  // That of the highest measured rate among those of 16 bits and more.
  static Precision Leading(const std::map<Precision, std::vector<MeasuredGemm>>& by_precision) {
    Precision leading = by_precision.begin()->first;
    double best = 0;
    for (const auto& [precision, gemms] : by_precision) {
      if (precision == Precision::kFp8) continue;
      for (const MeasuredGemm& g : gemms) {
        const double rate = 2 * g.shape.m * g.shape.n * g.shape.k * g.shape.count / g.time.count();
        if (rate > best) {
          best = rate;
          leading = precision;
        }
      }
    }
    return leading;
  }

  void FitLeadingGemm(Precision precision, const std::vector<MeasuredGemm>& gemms) {
    OperatorFit fit = {.name = "gemm",
                       .detail = std::string(Word(precision)),
                       .point_count = static_cast<int>(gemms.size()),
                       .before = ErrorBefore(gemms),
                       .limit_ratio = kGemmLimit};
    RemoveTables();
    const bool with_table = static_cast<int>(gemms.size()) >= 3 * kShapesOfATable;
    fit.held_out = GemmHeldOutError(
        gemms, spec(), with_table ? GemmFitParts::kConstantsAndTable : GemmFitParts::kConstants);
    fit.verdict = Verdict(fit.held_out, kGemmLimit);
    if (fit.verdict == OperatorVerdict::kPoor && !with_table) {
      fit.advice =
          "measure 200 more shapes, for a table of residuals: "
          "microbench.py --only gemm --gemm-shapes 232";
    }
    SetGemm(FitGemm(gemms, spec()), ErrorText(fit.held_out));
    if (with_table) AddTable(precision, Single(gemms), ErrorText(fit.held_out));
    result_.operators.push_back(std::move(fit));
  }

  [[nodiscard]] FitError ErrorBefore(const std::vector<MeasuredGemm>& gemms) const {
    std::vector<double> errors;
    for (const MeasuredGemm& g : gemms) {
      if (!NominalPeak(before_.spec, g.precision).has_value()) continue;
      errors.push_back(std::abs(GemmTime(g, before_.spec) / g.time - 1));
    }
    return ErrorOf(std::move(errors));
  }

  void SetGemm(const GemmModel& g, std::string_view error) {
    const std::pair<std::string_view, double> figures[] = {
        {"gemm_compute_efficiency_ratio", g.compute_efficiency},
        {"gemm_memory_efficiency_ratio", g.memory_efficiency},
        {"gemm_fixed_seconds", g.fixed.count()},
        {"gemm_intensity_half_ratio", g.intensity_half},
        {"gemm_fill_elements", g.fill},
        {"gemm_quantisation_ratio", g.quantisation},
        {"gemm_norm_exponent", g.norm_exponent},
        {"gemm_split_k_seconds", g.split_k.count()}};
    for (const auto& [name, value] : figures) {
      draft_.Set(name, NumberText(value), Provenance::kFitted, error);
    }
  }

  static bool IsHalf(Precision precision) {
    return precision == Precision::kBf16 || precision == Precision::kFp16;
  }

  static std::vector<MeasuredGemm> Single(const std::vector<MeasuredGemm>& gemms) {
    std::vector<MeasuredGemm> single;
    for (const MeasuredGemm& g : gemms) {
      if (g.shape.count == 1) single.push_back(g);
    }
    return single;
  }

  // They hold the measured over the modelled time by constants that change now.
  void RemoveTables() {
    for (const GemmResidualTable& table : spec().gemm_residuals) {
      const std::string name = ResidualTableName(table);
      draft_.RemoveRow(name);
      result_.warnings.push_back(name + " is removed: its ratios are to the constants before");
    }
    spec().gemm_residuals.clear();
  }

  // A precision besides the one that the constants are of: a table of what differs. bf16 and fp16
  // share their table, so that of the second only the error is told.
  void AddPrecision(Precision precision, const std::vector<MeasuredGemm>& gemms,
                    bool shares_table) {
    const std::vector<MeasuredGemm> single = Single(gemms);
    if (single.empty()) return;
    OperatorFit fit = {.name = "gemm",
                       .detail = std::string(Word(precision)),
                       .point_count = static_cast<int>(single.size()),
                       .before = ErrorBefore(single),
                       .limit_ratio = kGemmLimit};
    if (shares_table) {
      std::vector<double> errors;
      errors.reserve(single.size());
      for (const MeasuredGemm& g : single) {
        errors.push_back(std::abs(GemmTime(g, spec()) / g.time - 1));
      }
      fit.held_out = ErrorOf(std::move(errors));  // none of them was fitted to
    } else {
      fit.held_out = GemmHeldOutError(single, spec(), GemmFitParts::kTable);
      AddTable(precision, single, ErrorText(fit.held_out));
    }
    fit.verdict = Verdict(fit.held_out, kGemmLimit);
    result_.operators.push_back(std::move(fit));
  }

  void AddTable(Precision precision, const std::vector<MeasuredGemm>& single,
                std::string_view error) {
    GemmResidualTable table = {
        .precision = precision == Precision::kFp16 ? Precision::kBf16 : precision,
        .shapes = SummariseResiduals(single, spec())};
    const auto cut = std::erase_if(table.shapes, [](const GemmResidual& r) {
      return r.log_time_ratio < std::log(0.05) || r.log_time_ratio > std::log(20.0);
    });
    if (cut > 0) {
      result_.warnings.push_back(fmt::format(
          "{} sizes of the {} table are left out: measured over modelled time is below 0.05 or "
          "above 20",
          cut, Word(precision)));
    }
    if (table.shapes.empty()) return;
    IndexShapes(table);
    draft_.SetRow(ResidualTableName(table), fmt::format("{} shapes", table.shapes.size()),
                  Provenance::kMeasured, error);
    spec().gemm_residuals.push_back(std::move(table));
  }

  void FitSustained() {
    std::vector<double> ratios;
    for (const MeasuredSustained& s : measured_.sustained) ratios.push_back(s.sustained / s.burst);
    if (ratios.empty()) {
      AddMissing("sustained gemm", "sustained_gemm");
      return;
    }
    std::sort(ratios.begin(), ratios.end());
    const double ratio = ratios[ratios.size() / 2];
    draft_.Set("sustained_time_ratio", NumberText(ratio), Provenance::kMeasured,
               "GEMMs one after the other on all ranks, over a burst on one");
    result_.operators.push_back({.name = "sustained gemm",
                                 .point_count = static_cast<int>(ratios.size()),
                                 .verdict = OperatorVerdict::kGood});
  }

  void FitFusedAttention() {
    if (measured_.attention.empty()) {
      if (measured_.has_fused_attention) AddMissing("attention", "attention");
      return;
    }
    const std::vector<MeasuredAttention> points = AttentionOfOnePrecision();
    const Precision precision = points.front().precision;
    if (!NominalPeak(spec(), precision).has_value()) {
      result_.warnings.push_back(
          fmt::format("attention is left as it was: the chip has no peak of {}, in which it was "
                      "measured",
                      Word(precision)));
      return;
    }
    std::vector<double> errors;
    errors.reserve(points.size());
    for (const MeasuredAttention& p : points) {
      errors.push_back(std::abs(AttentionTime(p, spec()) / p.time - 1));
    }
    const FitError error = AttentionHeldOutError(points, spec());
    const AttentionModel model = FitAttention(points, spec());
    SetAttentionFigures(model, ErrorText(error));
    result_.operators.push_back({.name = "attention",
                                 .detail = std::string(Word(precision)),
                                 .point_count = static_cast<int>(points.size()),
                                 .before = ErrorOf(std::move(errors)),
                                 .held_out = error,
                                 .limit_ratio = kAttentionLimit,
                                 .verdict = Verdict(error, kAttentionLimit)});
  }

  // Of the narrowest that training uses: constants are shares of one peak.
  [[nodiscard]] std::vector<MeasuredAttention> AttentionOfOnePrecision() const {
    std::vector<MeasuredAttention> points;
    for (const Precision precision : {Precision::kBf16, Precision::kFp16, Precision::kFp32}) {
      std::ranges::copy_if(
          measured_.attention, std::back_inserter(points),
          [precision](const MeasuredAttention& p) { return p.precision == precision; });
      if (!points.empty()) return points;
    }
    return measured_.attention;
  }

  void SetAttentionFigures(const AttentionModel& model, std::string_view error) {
    std::vector<std::pair<std::string_view, double>> figures = {
        {"attention_efficiency_ratio", model.efficiency},
        {"attention_sequence_half_tokens", model.sequence_half},
        {"attention_wave_half", model.wave_half},
        {"attention_small_head_ratio", model.small_head_ratio},
        {"attention_backward_time_ratio", model.backward_time_ratio}};
    if (model.backward_sequence_half.has_value()) {
      figures.emplace_back("attention_backward_sequence_half_tokens",
                           *model.backward_sequence_half);
    }
    if (model.backward_wave_half.has_value()) {
      figures.emplace_back("attention_backward_wave_half", *model.backward_wave_half);
    }
    for (const auto& [name, value] : figures) {
      draft_.Set(name, NumberText(value), Provenance::kFitted, error);
    }
  }

  // The optimizer and plain additions run at the rate of copies, not of a layer's kernels.
  void FitElementwise() {
    std::vector<MeasuredTraffic> points;
    for (const MeasuredElementwise& e : measured_.elementwise) {
      if (e.operation != "adam" && e.operation != "add") points.push_back(e.traffic);
    }
    if (points.empty()) {
      AddMissing("memory-bound", "elementwise");
      return;
    }
    std::vector<double> errors;
    errors.reserve(points.size());
    for (const MeasuredTraffic& p : points) {
      errors.push_back(std::abs(
          StreamTime(p.bytes, before_.spec.memory_bound_efficiency, before_.spec) / p.time - 1));
    }
    const FitError error = TrafficHeldOutError(points, spec());
    const TrafficFit fit = FitTraffic(points, spec());
    draft_.Set("memory_bound_efficiency_ratio", NumberText(fit.efficiency), Provenance::kFitted,
               ErrorText(error));
    draft_.Set("memory_bound_fixed_seconds", NumberText(fit.fixed.count()), Provenance::kFitted,
               ErrorText(error));
    draft_.Set("cache_bandwidth_ratio", NumberText(fit.cache_bandwidth_ratio), Provenance::kFitted,
               ErrorText(error));
    result_.operators.push_back({.name = "memory-bound",
                                 .point_count = static_cast<int>(points.size()),
                                 .before = ErrorOf(std::move(errors)),
                                 .held_out = error,
                                 .limit_ratio = kTrafficLimit,
                                 .verdict = Verdict(error, kTrafficLimit)});
  }

  void FitCollectives() {
    std::map<std::pair<CollectiveKind, int>, std::vector<MeasuredCollective>> curves;
    for (const MeasuredCollective& c : measured_.collectives) {
      if (c.ranks > 1) curves[{c.kind, c.ranks}].push_back(c);
    }
    if (curves.empty()) {
      if (measured_.ranks > 1) AddMissing("collectives", "collectives");
      return;
    }
    for (const auto& [key, points] : curves) FitCurve(points);
  }

  void FitCurve(const std::vector<MeasuredCollective>& points) {
    const CollectiveFit fit = FitCollective(points);
    const FitError error = ErrorOf(CurveHeldOutErrors(points));
    std::vector<double> errors;
    for (const CollectiveFit& old : before_.spec.collectives) {
      if (old.kind != fit.kind || old.ranks != fit.ranks) continue;
      for (const MeasuredCollective& p : points) {
        errors.push_back(std::abs(FitTime(old, p.bytes) / p.time - 1));
      }
    }
    draft_.SetRow(CollectiveName(fit), CollectiveText(fit), Provenance::kMeasured,
                  ErrorText(error));
    result_.operators.push_back({.name = std::string(CollectiveWordOf(fit.kind)),
                                 .detail = fmt::format("{} ranks", fit.ranks),
                                 .point_count = static_cast<int>(points.size()),
                                 .before = ErrorOf(std::move(errors)),
                                 .held_out = error,
                                 .limit_ratio = kCollectiveLimit,
                                 .verdict = Verdict(error, kCollectiveLimit)});
    std::erase_if(spec().collectives, [&fit](const CollectiveFit& old) {
      return old.kind == fit.kind && old.ranks == fit.ranks;
    });
    spec().collectives.push_back(fit);
  }

  // A link's rate that nobody published is what a large message between two ranks says of it.
  void FitLink() {
    constexpr std::string_view kRate = "scale_up_bandwidth_bytes_per_second";
    if (measured_.messages.empty() || draft_.IsPublished(kRate)) return;
    double best = 0;
    for (const MeasuredTraffic& m : measured_.messages) {
      best = std::max(best, static_cast<double>(m.bytes.count) / m.time.count());
    }
    draft_.Set(kRate, fmt::format("{:.4g}", best / kMessageShare), Provenance::kMeasured,
               "the fastest message between two ranks");
  }

  // What failed in the middle has told something, but not all that was asked.
  void WarnOfItems() {
    for (const ItemState& item : measured_.items) {
      if (item.status == "failed") {
        result_.warnings.push_back(fmt::format("item {} failed ({}): what it had measured counts",
                                               item.name, item.reason));
      }
    }
    if (!measured_.is_quick) return;
    result_.is_quick = true;
    result_.warnings.push_back("measured with --quick, by which no chip should be judged");
  }

  void AddMissing(std::string_view name, std::string_view item) {
    const auto state = std::find_if(measured_.items.begin(), measured_.items.end(),
                                    [item](const ItemState& s) { return s.name == item; });
    std::string why = "is not in the file";
    if (state != measured_.items.end()) {
      why = fmt::format("{}{}", state->status,
                        state->reason.empty() ? "" : fmt::format(" ({})", state->reason));
    }
    result_.operators.push_back(
        {.name = std::string(name),
         .verdict = OperatorVerdict::kAssumed,
         .advice = fmt::format("item {} {}: the figures stand as they were", item, why)});
  }

  const ChipMeasurements& measured_;
  const ChipEntry& before_;
  ChipDraft draft_;
  ChipCalibration result_;
};

}  // namespace

absl::StatusOr<ChipCalibration> CalibrateChip(const ChipEntry& base,
                                              const ChipMeasurements& measurements,
                                              std::string_view name) {
  return ChipCalibrator(base, measurements, name).Calibrate();
}

bool IsReady(const ChipCalibration& calibration) {
  return !calibration.is_quick &&
         std::ranges::all_of(calibration.operators, [](const OperatorFit& fit) {
           return fit.verdict == OperatorVerdict::kGood || fit.name == "sustained gemm";
         });
}

}  // namespace meshwright

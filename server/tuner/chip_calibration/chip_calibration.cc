#include "server/tuner/chip_calibration/chip_calibration.h"

#include <algorithm>
#include <cmath>
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
      : measured_(measured), before_(base) {
    result_.name = name;
    result_.entry = base;
    origin_ = fmt::format("calibration {} on {}, PyTorch {}, {}", name, measured.device_name,
                          measured.torch, measured.backend);
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
      Set("runtime_context_bytes", fmt::format("{}", measured_.runtime_context->count),
          Provenance::kMeasured, "");
    }
    // Reads it again as any chip file is read: ranges are checked, provenance is summed up.
    ASSIGN_OR_RETURN(result_.entry,
                     ParseChipFile(result_.entry.spec.id, ChipFileText(result_.entry)));
    return std::move(result_);
  }

 private:
  ChipSpec& spec() { return result_.entry.spec; }

  [[nodiscard]] const ChipFigure* Figure(std::string_view name) const {
    return FindFigure(result_.entry, name);
  }

  [[nodiscard]] bool IsPublished(std::string_view name) const {
    const ChipFigure* figure = Figure(name);
    return figure != nullptr && figure->provenance == Provenance::kPublished;
  }

  [[nodiscard]] std::string Source(std::string_view what) const {
    return what.empty() ? origin_ : fmt::format("{}; {}", origin_, what);
  }

  void Set(std::string_view name, std::string value, Provenance provenance, std::string_view what) {
    const ChipFigure* old = Figure(name);
    const std::string before = old == nullptr ? "" : old->value;
    if (before != value) {
      result_.changes.push_back(
          {.name = std::string(name), .before = before, .after = value, .provenance = provenance});
    }
    SetFigure(result_.entry, {.name = std::string(name),
                              .value = std::move(value),
                              .source = Source(what),
                              .provenance = provenance,
                              .confidence = Confidence::kHigh});
  }

  // Replaces what is said of a list's row, or adds it.
  void SetRow(const std::string& name, std::string value, Provenance provenance,
              std::string_view what) {
    std::vector<ChipFigure>& figures = result_.entry.figures;
    std::erase_if(figures, [&name](const ChipFigure& f) { return f.name == name; });
    const ChipFigure* old = FindFigure(before_, name);
    result_.changes.push_back({.name = name,
                               .before = old == nullptr ? "" : old->value,
                               .after = value,
                               .provenance = provenance});
    figures.push_back({.name = name,
                       .value = std::move(value),
                       .source = Source(what),
                       .provenance = provenance,
                       .confidence = Confidence::kHigh});
  }

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
    if (!IsPublished("memory_bandwidth_bytes_per_second")) {
      Set("memory_bandwidth_bytes_per_second", fmt::format("{:.4g}", best), Provenance::kMeasured,
          "the fastest large copy");
    }
    Set("stream_efficiency_ratio", NumberText(best / spec().memory_bandwidth.rate),
        Provenance::kMeasured, "the fastest large copy over the nominal bandwidth");
    result_.operators.push_back({.name = "stream",
                                 .point_count = static_cast<int>(measured_.streams.size()),
                                 .verdict = OperatorVerdict::kGood});
  }

  // A peak that nobody published is the best rate that was measured.
  void SetPeak(Precision precision, std::span<const MeasuredGemm> gemms) {
    const std::string key = fmt::format("peak_{}_flops_per_second", Word(precision));
    if (IsPublished(key)) return;
    double best = 0;
    for (const MeasuredGemm& g : gemms) {
      best = std::max(best, 2 * g.shape.m * g.shape.n * g.shape.k * g.shape.count / g.time.count());
    }
    Set(key, fmt::format("{:.4g}", best), Provenance::kMeasured, "the fastest GEMM");
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
      if (precision != leading) AddTable(precision, gemms, /*is_reported=*/true);
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
    spec().gemm_residuals.clear();
    std::erase_if(result_.entry.figures,
                  [](const ChipFigure& f) { return f.name.starts_with("gemm_residuals_"); });
    const bool with_table = static_cast<int>(gemms.size()) >= 3 * kShapesOfATable;
    fit.held_out = GemmHeldOutError(gemms, spec(), with_table);
    fit.verdict = Verdict(fit.held_out, kGemmLimit);
    if (fit.verdict == OperatorVerdict::kPoor && !with_table) {
      fit.advice =
          "measure 200 more shapes, for a table of residuals: "
          "microbench.py --only gemm --gemm-shapes 232";
    }
    SetGemm(FitGemm(gemms, spec()), ErrorText(fit.held_out));
    if (with_table) AddTable(precision, gemms, /*is_reported=*/false);
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
      Set(name, NumberText(value), Provenance::kFitted, error);
    }
  }

  // Residuals of what was measured against the constants as they now are. `is_reported`: as an
  // operator of its own.
  void AddTable(Precision precision, const std::vector<MeasuredGemm>& gemms, bool is_reported) {
    std::vector<MeasuredGemm> single;
    for (const MeasuredGemm& g : gemms) {
      if (g.shape.count == 1) single.push_back(g);
    }
    if (single.empty()) return;
    GemmResidualTable table = {
        .precision = precision == Precision::kFp16 ? Precision::kBf16 : precision,
        .shapes = SummariseResiduals(single, spec())};
    for (GemmResidual& r : table.shapes) {
      r.log_time_ratio = std::clamp(r.log_time_ratio, std::log(0.05), std::log(20.0));
    }
    IndexShapes(table);
    const std::string name = ResidualTableName(table);
    if (Figure(name) != nullptr) return;  // bf16 and fp16 share one
    SetRow(name, fmt::format("{} shapes", table.shapes.size()), Provenance::kMeasured, "");
    spec().gemm_residuals.push_back(std::move(table));
    if (!is_reported) return;
    OperatorFit fit = {.name = "gemm",
                       .detail = std::string(Word(precision)),
                       .point_count = static_cast<int>(gemms.size()),
                       .before = ErrorBefore(gemms),
                       .held_out = GemmHeldOutError(single, spec(), true),
                       .limit_ratio = kGemmLimit};
    fit.verdict = Verdict(fit.held_out, kGemmLimit);
    result_.operators.push_back(std::move(fit));
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
    Set("sustained_time_ratio", NumberText(ratio), Provenance::kMeasured,
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
    const Precision precision =
        NominalPeak(spec(), Precision::kBf16).has_value() ? Precision::kBf16 : Precision::kFp16;
    const FitError error = AttentionHeldOutError(measured_.attention, spec(), precision);
    const AttentionModel model = FitAttention(measured_.attention, spec(), precision);
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
      Set(name, NumberText(value), Provenance::kFitted, ErrorText(error));
    }
    result_.operators.push_back({.name = "attention",
                                 .detail = std::string(Word(precision)),
                                 .point_count = static_cast<int>(measured_.attention.size()),
                                 .held_out = error,
                                 .limit_ratio = kAttentionLimit,
                                 .verdict = Verdict(error, kAttentionLimit)});
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
    Set("memory_bound_efficiency_ratio", NumberText(fit.efficiency), Provenance::kFitted,
        ErrorText(error));
    Set("memory_bound_fixed_seconds", NumberText(fit.fixed.count()), Provenance::kFitted,
        ErrorText(error));
    Set("cache_bandwidth_ratio", NumberText(fit.cache_bandwidth_ratio), Provenance::kFitted,
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
    spec().collectives.clear();
    std::erase_if(result_.entry.figures,
                  [](const ChipFigure& f) { return f.name.starts_with("collective_"); });
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
    SetRow(CollectiveName(fit), CollectiveText(fit), Provenance::kMeasured, ErrorText(error));
    result_.operators.push_back({.name = std::string(CollectiveWordOf(fit.kind)),
                                 .detail = fmt::format("{} ranks", fit.ranks),
                                 .point_count = static_cast<int>(points.size()),
                                 .before = ErrorOf(std::move(errors)),
                                 .held_out = error,
                                 .limit_ratio = kCollectiveLimit,
                                 .verdict = Verdict(error, kCollectiveLimit)});
    spec().collectives.push_back(fit);
  }

  // A link's rate that nobody published is what a large message between two ranks says of it.
  void FitLink() {
    if (measured_.messages.empty() || IsPublished("scale_up_bandwidth_bytes_per_second")) return;
    double best = 0;
    for (const MeasuredTraffic& m : measured_.messages) {
      best = std::max(best, static_cast<double>(m.bytes.count) / m.time.count());
    }
    Set("scale_up_bandwidth_bytes_per_second", fmt::format("{:.4g}", best / kMessageShare),
        Provenance::kMeasured, "the fastest message between two ranks");
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
  std::string origin_;
  ChipCalibration result_;
};

}  // namespace

absl::StatusOr<ChipCalibration> CalibrateChip(const ChipEntry& base,
                                              const ChipMeasurements& measurements,
                                              std::string_view name) {
  return ChipCalibrator(base, measurements, name).Calibrate();
}

bool IsReady(const ChipCalibration& calibration) {
  return std::all_of(calibration.operators.begin(), calibration.operators.end(),
                     [](const OperatorFit& fit) {
                       const bool is_measured = fit.verdict != OperatorVerdict::kAssumed;
                       const bool is_needed = fit.name != "sustained gemm";
                       return fit.verdict != OperatorVerdict::kPoor && (is_measured || !is_needed);
                     });
}

}  // namespace meshwright

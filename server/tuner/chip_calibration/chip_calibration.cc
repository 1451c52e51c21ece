#include "server/tuner/chip_calibration/chip_calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <map>
#include <utility>

#include "estimator/fit/collective_fit.h"
#include "estimator/fit/fit_error.h"
#include "estimator/fit/measured.h"
#include "estimator/fit/traffic_fit.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/matmul.h"
#include "estimator/terms/stream.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "server/tuner/chip_calibration/attention_calibration.h"
#include "server/tuner/chip_calibration/calibration_work.h"
#include "server/tuner/chip_calibration/chip_draft.h"
#include "server/tuner/chip_calibration/gemm_calibration.h"
#include "server/tuner/chip_calibration/rate_fits.h"
#include "vendor_models/chip_text.h"
#include "vendor_models/collective_row.h"

namespace meshwright {
namespace {

// An operator is poor if the median of its held-out errors exceeds its limit.
constexpr double kTrafficLimit = 0.25;  // one rate stands for norms, activations and losses
constexpr double kCollectiveLimit = 0.15;
constexpr double kStreamLimit = 0.15;
constexpr double kSmallLimit = 0.15;  // host link, overlap
constexpr Bytes kLargeHostCopy = {16 << 20};

// Uses the largest working set, which is affected least by a cache that the chip file does not
// know.
std::optional<ReachedRate> ReachedByCopies(CalibrationWork& work) {
  constexpr std::string_view kBandwidth = "memory_bandwidth_bytes_per_second";
  Bytes largest = {2 * work.spec().cache.count};
  for (const MeasuredStream& s : work.measured.streams) {
    largest = std::max(largest, s.working_set);
  }
  std::vector<MeasuredTraffic> copies;
  for (const MeasuredStream& s : work.measured.streams) {
    if (s.working_set == largest) copies.push_back(s.traffic);
  }
  if (copies.empty() || !work.draft.IsPublished(kBandwidth)) return std::nullopt;
  return ReachedRate{.item = "memory",
                     .what = fmt::format("the fastest copy of {} MiB (more than its caches?)",
                                         largest.count >> 20),
                     .measured = FitStreams(copies).fastest,
                     .figure = std::string(kBandwidth),
                     .published = work.before.spec.memory_bandwidth.rate};
}

// Checks the reached rates. If the published figure has low confidence, it may be the wrong one, so
// the result is only a warning.
absl::Status CheckPlausible(CalibrationWork& work) {
  std::vector<ReachedRate> all = ReachedByGemms(work);
  if (const auto copies = ReachedByCopies(work); copies.has_value()) all.push_back(*copies);
  std::vector<FieldViolation> violations;
  for (const ReachedRate& reached : all) {
    auto violation = Implausible(reached, work.measured.is_quick);
    if (!violation.has_value()) continue;
    const auto figure = std::ranges::find(work.before.figures, reached.figure, &ChipFigure::name);
    if (figure->confidence == Confidence::kLow) {
      work.result.warnings.push_back(
          fmt::format("{} = {}; or the figure is wrong, which has low confidence ({})",
                      violation->field, violation->description, figure->source));
    } else {
      violations.push_back(*std::move(violation));
    }
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

void FitMemory(CalibrationWork& work) {
  std::vector<MeasuredTraffic> large;  // smaller ones run from the cache
  for (const MeasuredStream& s : work.measured.streams) {
    if (s.working_set.count >= 2 * work.spec().cache.count) large.push_back(s.traffic);
  }
  if (large.empty() && !work.measured.streams.empty()) {
    work.result.operators.push_back(
        {.name = "stream",
         .point_count = static_cast<int>(work.measured.streams.size()),
         .verdict = OperatorVerdict::kAssumed,
         .advice = fmt::format("no working set of {} bytes, twice the cache: "
                               "microbench.py --only memory --again --max-bytes {}",
                               2 * work.spec().cache.count, 2 * work.spec().cache.count)});
    return;
  }
  if (large.empty()) {
    AddMissing(work, "stream", "memory");
    return;
  }
  const FitError before = Errors<MeasuredTraffic>(large, [&work](const MeasuredTraffic& p) {
    return p.bytes / (work.before.spec.memory_bandwidth * work.before.spec.stream_efficiency);
  });
  const StreamFit fit = FitStreams(large);
  const OperatorVerdict verdict = VerdictOf(fit.rate.error, kStreamLimit);
  FoundFigure fastest = {.name = "measured_memory_bandwidth_bytes_per_second",
                         .value = fit.fastest,
                         .text = fmt::format("{:.4g}", fit.fastest)};
  const FigureOrigin origin = OriginOf(Provenance::kMeasured, "the fastest large copy", verdict);
  SetFound(work, fastest, origin);
  fastest.name = "memory_bandwidth_bytes_per_second";
  if (!work.draft.IsPublished(fastest.name)) SetFound(work, fastest, origin);
  SetFound(
      work,
      {.name = "stream_efficiency_ratio",
       .value = fit.rate.value / work.spec().memory_bandwidth.rate},
      OriginOf(Provenance::kMeasured, "the median large copy over the nominal bandwidth", verdict));
  work.result.operators.push_back({.name = "stream",
                                   .point_count = static_cast<int>(large.size()),
                                   .before = before,
                                   .held_out = fit.rate.error,
                                   .limit_ratio = kStreamLimit,
                                   .verdict = verdict});
}

void FitSustained(CalibrationWork& work) {
  if (work.measured.sustained.empty()) {
    AddMissing(work, "sustained gemm", "sustained_gemm");
    work.result.operators.back().is_needed = false;
    return;
  }
  const auto ratio = [](const MeasuredSustained& s) { return s.sustained / s.burst; };
  std::vector<MeasuredSustained> rows = work.measured.sustained;
  std::ranges::stable_sort(rows, {}, ratio);
  const MeasuredSustained& median = rows[rows.size() / 2];
  SetFound(work,
           {.name = "sustained_time_ratio",
            .value = ratio(median),
            .size = fmt::format("{} {} x {} x {}", Word(median.precision), median.shape.m,
                                median.shape.n, median.shape.k)},
           {.provenance = Provenance::kMeasured,
            .what = "GEMMs one after the other on all ranks, over a burst on one"});
  work.result.operators.push_back({.name = "sustained gemm",
                                   .point_count = static_cast<int>(rows.size()),
                                   .verdict = OperatorVerdict::kMeasured,
                                   .is_needed = false});
}

// Returns the kernels of a layer, fused ones if there are any: the model counts the passes of an
// unfused operation. The optimizer and plain additions run at the rate of copies.
std::vector<MeasuredTraffic> LayerKernels(const ChipMeasurements& measured) {
  const bool has_fused = std::ranges::any_of(measured.elementwise, &MeasuredElementwise::is_fused);
  std::vector<MeasuredTraffic> points;
  for (const MeasuredElementwise& e : measured.elementwise) {
    if (e.is_fused != has_fused || e.operation == "adam" || e.operation == "add") continue;
    points.push_back(e.traffic);
  }
  return points;
}

void FitElementwise(CalibrationWork& work) {
  const std::vector<MeasuredTraffic> points = LayerKernels(work.measured);
  if (points.empty()) {
    AddMissing(work, "memory-bound", "elementwise");
    return;
  }
  const FitError before = Errors<MeasuredTraffic>(points, [&work](const MeasuredTraffic& p) {
    return StreamTime(p.bytes, work.before.spec.memory_bound_efficiency, work.before.spec);
  });
  const FitError error = TrafficHeldOutError(points, work.spec());
  const OperatorVerdict verdict = VerdictOf(error, kTrafficLimit);
  const TrafficFit fit = FitTraffic(points, work.spec());
  SetAll(work,
         {{"memory_bound_efficiency_ratio", fit.efficiency},
          {"memory_bound_fixed_seconds", fit.fixed.count()},
          {"cache_bandwidth_ratio", fit.cache_bandwidth_ratio}},
         OriginOf(Provenance::kFitted, ErrorText(error), verdict));
  work.result.operators.push_back({.name = "memory-bound",
                                   .point_count = static_cast<int>(points.size()),
                                   .before = before,
                                   .held_out = error,
                                   .limit_ratio = kTrafficLimit,
                                   .verdict = verdict});
}

// Returns true if most plans need the collective. Only the exchange of experts and heads uses
// all-to-all.
bool PlansNeed(CollectiveKind kind) { return kind != CollectiveKind::kAllToAll; }

void FitCurve(CalibrationWork& work, const std::vector<MeasuredCollective>& points) {
  const CollectiveFit fit = FitCollective(points);
  const FitError error = ErrorOf(CurveHeldOutErrors(points));
  std::vector<double> errors;
  for (const CollectiveFit& old : work.before.spec.collectives) {
    if (old.kind != fit.kind || old.ranks != fit.ranks) continue;
    for (const MeasuredCollective& p : points) {
      errors.push_back(std::abs(FitTime(old, p.bytes) / p.time - 1));
    }
  }
  const OperatorVerdict verdict = VerdictOf(error, kCollectiveLimit);
  work.draft.SetRow(CollectiveName(fit), CollectiveText(fit),
                    OriginOf(Provenance::kMeasured, ErrorText(error), verdict));
  work.result.operators.push_back({.name = std::string(CollectiveWordOf(fit.kind)),
                                   .detail = fmt::format("{} ranks", fit.ranks),
                                   .point_count = static_cast<int>(points.size()),
                                   .before = ErrorOf(std::move(errors)),
                                   .held_out = error,
                                   .limit_ratio = kCollectiveLimit,
                                   .verdict = verdict,
                                   .is_needed = PlansNeed(fit.kind)});
  std::erase_if(work.spec().collectives, [&fit](const CollectiveFit& old) {
    return old.kind == fit.kind && old.ranks == fit.ranks;
  });
  work.spec().collectives.push_back(fit);
}

void FitCollectives(CalibrationWork& work) {
  std::map<std::pair<CollectiveKind, int>, std::vector<MeasuredCollective>> curves;
  for (const MeasuredCollective& c : work.measured.collectives) {
    if (c.ranks > 1) curves[{c.kind, c.ranks}].push_back(c);
  }
  if (curves.empty()) {
    AddMissing(work, "collectives", "collectives");
    work.result.operators.back().is_needed =
        work.measured.ranks > 1 || work.spec().usual_node.device_count > 1;
    return;
  }
  for (const auto& [key, points] : curves) FitCurve(work, points);
  for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                    CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll}) {
    if (std::ranges::any_of(curves, [kind](const auto& c) { return c.first.first == kind; })) {
      continue;
    }
    AddMissing(work, CollectiveWordOf(kind), "collectives");
    work.result.operators.back().is_needed = PlansNeed(kind);
  }
}

// Fits an unpublished link rate to large messages between two ranks.
void FitLink(CalibrationWork& work) {
  constexpr std::string_view kRate = "scale_up_bandwidth_bytes_per_second";
  if (work.measured.messages.empty() || work.draft.IsPublished(kRate)) return;
  double best = 0;
  for (const MeasuredTraffic& m : work.measured.messages) {
    best = std::max(best, static_cast<double>(m.bytes.count) / m.time.count());
  }
  SetFound(work,
           {.name = kRate,
            .value = best / kMessageShare,
            .text = fmt::format("{:.4g}", best / kMessageShare)},
           {.provenance = Provenance::kMeasured, .what = "the fastest message between two ranks"});
}

// A figure that few plans need, and the item of the microbenchmarks that measures it.
struct SmallFigure {
  std::string_view name;
  std::string_view item;
  std::string_view figure;
  std::string_view what;
  std::string size = {};  // "copies of 16777216 to 268435456 bytes"
};

template <typename Row, typename BytesOf>
std::string SizesText(const std::vector<Row>& rows, std::string_view what, BytesOf bytes_of) {
  if (rows.empty()) return "";
  const auto [least, most] = std::ranges::minmax(rows, {}, bytes_of);
  return fmt::format("{} of {} to {} bytes", what, bytes_of(least).count, bytes_of(most).count);
}

void AddSmall(CalibrationWork& work, const SmallFigure& small, const RateFit& fit) {
  if (fit.row_count == 0) {
    AddMissing(work, small.name, small.item);
    work.result.operators.back().is_needed = false;
    return;
  }
  const OperatorVerdict verdict = VerdictOf(fit.error, kSmallLimit);
  work.result.operators.push_back({.name = std::string(small.name),
                                   .point_count = fit.row_count,
                                   .held_out = fit.error,
                                   .limit_ratio = kSmallLimit,
                                   .verdict = verdict,
                                   .is_needed = false});
  SetFound(work, {.name = small.figure, .value = fit.value, .size = small.size},
           OriginOf(Provenance::kMeasured, fmt::format("{}; {}", small.what, ErrorText(fit.error)),
                    verdict));
}

void FitHostLink(CalibrationWork& work) {
  std::vector<MeasuredTraffic> large;  // the start-up cost dominates smaller ones
  for (const MeasuredHostCopy& copy : work.measured.host_copies) {
    if (copy.is_pinned && copy.traffic.bytes >= kLargeHostCopy) large.push_back(copy.traffic);
  }
  AddSmall(work,
           {.name = "host link",
            .item = "host_link",
            .figure = "host_link_bandwidth_bytes_per_second",
            .what = "the median large copy of pinned memory",
            .size = SizesText(large, "copies", [](const MeasuredTraffic& t) { return t.bytes; })},
           FitStreams(large).rate);
}

void FitOverlapping(CalibrationWork& work) {
  AddSmall(work,
           {.name = "overlap",
            .item = "overlap",
            .figure = "overlap_slowdown_ratio",
            .what = "the median of GEMMs beside an all-reduce",
            .size = SizesText(work.measured.overlaps, "all-reduces",
                              [](const MeasuredOverlap& o) { return o.bytes; })},
           FitOverlap(work.measured.overlaps));
}

std::string_view ItemOfOperator(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kItems[] = {
      {"stream", "memory"},
      {"gemm", "gemm"},
      {"attention", "attention"},
      {"memory-bound", "elementwise"},
      {"host link", "host_link"},
      {"overlap", "overlap"},
      {"sustained gemm", "sustained_gemm"}};
  const auto* const item = std::ranges::find(kItems, name, [](const auto& i) { return i.first; });
  return item == std::end(kItems) ? "collectives" : item->second;
}

// Calls operators poor whose figures were refused, and advises to repeat the measurement of a poor
// operator if there is no better advice.
void AdviseToRepeat(CalibrationWork& work) {
  for (OperatorFit& fit : work.result.operators) {
    const std::string_view item = ItemOfOperator(fit.name);
    const bool is_refused = std::ranges::find(work.result.refused, item, &RefusedFigure::item) !=
                            work.result.refused.end();
    if (is_refused && fit.verdict != OperatorVerdict::kAssumed) {
      fit.verdict = OperatorVerdict::kPoor;
    }
    if (fit.verdict != OperatorVerdict::kPoor || !fit.advice.empty()) continue;
    fit.advice =
        fmt::format("measure it again on a quiet device: microbench.py --only {} --again", item);
  }
}

// Warns of items that failed part of the way: they measured something, but not all that was
// requested.
void WarnOfItems(CalibrationWork& work) {
  for (const ItemState& item : work.measured.items) {
    if (item.status == "failed") {
      work.result.warnings.push_back(fmt::format(
          "item {} failed ({}): only what it had measured before is used", item.name, item.reason));
    }
  }
  if (!work.measured.is_quick) return;
  work.result.is_quick = true;
  work.result.warnings.push_back("measured with --quick, which is too short to judge a chip by");
}

std::string_view ReasonNotReady(OperatorVerdict verdict) {
  switch (verdict) {
    case OperatorVerdict::kGood:
    case OperatorVerdict::kMeasured:
      return "";
    case OperatorVerdict::kTooFew:
      return "has too few points";
    case OperatorVerdict::kPoor:
      return "is poor";
    case OperatorVerdict::kAssumed:
      return "was not measured";
  }
  std::abort();
}

}  // namespace

absl::StatusOr<ChipCalibration> CalibrateChip(const ChipEntry& base,
                                              const ChipMeasurements& measurements,
                                              std::string_view name) {
  CalibrationWork work = {
      .measured = measurements,
      .before = base,
      .draft = ChipDraft(
          base, fmt::format("calibration {} on {}, PyTorch {}, {}", name, measurements.device_name,
                            measurements.torch, measurements.backend))};
  RETURN_IF_ERROR(CheckPlausible(work));
  work.result.name = name;
  work.result.device_name = measurements.device_name;
  FitMemory(work);
  FitGemms(work);
  FitSustained(work);
  FitAttentionKernels(work);
  FitElementwise(work);
  FitCollectives(work);
  FitLink(work);
  FitHostLink(work);
  FitOverlapping(work);
  AdviseToRepeat(work);
  if (measurements.runtime_context.has_value()) {
    SetFound(work,
             {.name = "runtime_context_bytes",
              .value = static_cast<double>(measurements.runtime_context->count),
              .text = fmt::format("{}", measurements.runtime_context->count)},
             {.provenance = Provenance::kMeasured});
  }
  WarnOfItems(work);
  if (IsReady(work.result) && work.spec().confidence == Confidence::kLow) {
    work.spec().confidence = Confidence::kMedium;  // its times are now measured
  }
  // Parses the result like any chip file, which checks the ranges and sums up the provenance.
  ASSIGN_OR_RETURN(work.result.entry,
                   ParseChipFile(work.spec().id, ChipFileText(work.draft.entry())));
  work.result.changes = work.draft.changes();
  return std::move(work.result);
}

std::vector<std::string> WhyNotReady(const ChipCalibration& calibration) {
  std::vector<std::string> reasons;
  for (const OperatorFit& fit : calibration.operators) {
    const std::string_view what = ReasonNotReady(fit.verdict);
    if (!fit.is_needed || what.empty()) continue;
    reasons.push_back(
        fmt::format("{}{}{} {}", fit.name, fit.detail.empty() ? "" : ", ", fit.detail, what));
  }
  for (const RefusedFigure& refused : calibration.refused) {
    reasons.push_back(fmt::format("{} = {}; must be {}{} to {}: repeat item {}{}", refused.name,
                                  refused.value, refused.is_at_edge ? "inside the bounds " : "",
                                  NumberText(refused.low), NumberText(refused.high), refused.item,
                                  refused.size.empty() ? "" : fmt::format(" ({})", refused.size)));
  }
  if (calibration.is_quick) {
    reasons.emplace_back(
        "it was measured with --quick: repeat all items without it, into another file");
  }
  return reasons;
}

bool IsReady(const ChipCalibration& calibration) { return WhyNotReady(calibration).empty(); }

}  // namespace meshwright

#include "estimator/fit/gemm_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "estimator/fit/fit_error.h"
#include "estimator/fit/minimise.h"
#include "estimator/terms/matmul.h"
#include "estimator/terms/matmul_residual.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

constexpr std::size_t kGemmConstants = 8;

// Just below a millisecond, the largest value that chip files allow.
constexpr double kLongestLog = -6.908;

// The usual distance of a constant from the class default, on the scale that it is fitted on: the
// spread of the shipped fits of eleven chips, at least 0.5. It counts as one point per constant.
struct GemmPrior {
  std::string_view figure;
  double low;
  double high;
  double spread;
};
constexpr GemmPrior kPriors[kGemmConstants] = {
    {"gemm_compute_efficiency_ratio", -4.6, 0.69, 0.5},  // ln e
    {"gemm_memory_efficiency_ratio", -4.6, 0.69, 0.5},   // ln eb
    {"gemm_fixed_seconds", -18.4, kLongestLog, 1.5},     // ln t0
    {"gemm_intensity_half_ratio", -7, 4.6, 2},           // ln s0
    {"gemm_fill_elements", 0, 9.2, 1.5},                 // ln k0
    {"gemm_quantisation_ratio", -4.6, 4.6, 2},           // logit q
    {"gemm_norm_exponent", -3, 3, 1},                    // ln (p - 1)
    {"gemm_split_k_seconds", -18.4, kLongestLog, 1.5},   // ln rk
};
constexpr double kEdge = 1e-3;  // share of the range

std::vector<double> FromGemm(const GemmModel& g) {
  const auto log = [](double x) { return std::log(std::max(x, 1e-12)); };
  const double q = std::clamp(g.quantisation, 0.01, 0.99);
  return {log(g.compute_efficiency),
          log(g.memory_efficiency),
          log(g.fixed.count()),
          log(g.intensity_half),
          log(g.fill),
          std::log(q / (1 - q)),
          log(g.norm_exponent - 1),
          log(g.split_k.count())};
}

GemmModel ToGemm(std::span<const double> x) {
  return {.compute_efficiency = std::exp(x[0]),
          .memory_efficiency = std::exp(x[1]),
          .fixed = Seconds(std::exp(x[2])),
          .intensity_half = std::exp(x[3]),
          .fill = std::exp(x[4]),
          .quantisation = 1 / (1 + std::exp(-x[5])),
          .norm_exponent = 1 + std::exp(x[6]),
          .split_k = Seconds(std::exp(x[7]))};
}

DeviceRates BurstRates(const ChipSpec& chip, Precision precision) {
  DeviceRates rates;
  rates.peak = NominalPeak(chip, precision).value_or(FlopsPerSecond{1});
  rates.element_bytes = precision == Precision::kFp8 ? 1 : precision == Precision::kFp32 ? 4 : 2;
  rates.vector_peak = chip.vector_peak;
  rates.precision = precision;
  return rates;
}

// Returns the chip without what the fit does not use, so that a copy costs nothing.
ChipSpec Bare(const ChipSpec& chip) {
  ChipSpec bare = chip;
  bare.gemm_residuals.clear();
  bare.collectives.clear();
  return bare;
}

double GemmCost(std::span<const MeasuredGemm> points, const ChipSpec& chip,
                const DeviceRates& rates) {
  double cost = 0;
  for (const MeasuredGemm& p : points) {
    const Seconds time = MatmulTime(p.shape, chip, rates, p.accumulates_fp32);
    cost += PointCost(std::log(time / p.time));
  }
  return cost;
}

// Returns several starts, because the form has local minima: whole waves or smooth ones, a steep or
// a flat tile.
std::vector<std::vector<FitParameter>> GemmStarts(std::span<const double> usual) {
  std::vector<std::vector<FitParameter>> starts;
  for (const double quantisation : {-2.0, 2.0}) {
    for (const double intensity : {-4.0, 1.0}) {
      std::vector<FitParameter> start;
      for (std::size_t i = 0; i < kGemmConstants; ++i) {
        const double at = i == 3 ? intensity : i == 5 ? quantisation : usual[i];
        start.push_back({.low = kPriors[i].low, .start = at, .high = kPriors[i].high});
      }
      starts.push_back(std::move(start));
    }
  }
  return starts;
}

std::vector<int> FoldsBySize(std::span<const MeasuredGemm> points) {
  std::map<std::pair<double, double>, int> fold_of;
  for (const MeasuredGemm& p : points) fold_of[{p.shape.n, p.shape.k}] = 0;
  int next = 0;
  for (auto& [size, fold] : fold_of) fold = next++ % kFitFolds;
  std::vector<int> folds;
  for (const MeasuredGemm& p : points) folds.push_back(fold_of[{p.shape.n, p.shape.k}]);
  return folds;
}

}  // namespace

Seconds GemmTime(const MeasuredGemm& point, const ChipSpec& chip) {
  const DeviceRates rates = BurstRates(chip, point.precision);
  return MatmulTime(point.shape, chip, rates, point.accumulates_fp32) *
         ResidualRatio(chip.gemm_residuals, point.precision, point.pass, point.shape);
}

GemmModel FitGemm(std::span<const MeasuredGemm> points, const ChipSpec& chip) {
  ChipSpec trial = Bare(chip);
  const DeviceRates rates = BurstRates(chip, points.front().precision);
  const std::vector<double> usual = FromGemm(GemmModel{});
  const auto cost = [&](std::span<const double> x) {
    trial.gemm = ToGemm(x);
    double sum = GemmCost(points, trial, rates);
    for (std::size_t i = 0; i < kGemmConstants; ++i) {
      sum += PointCost(1) * std::pow((x[i] - usual[i]) / kPriors[i].spread, 2) / 10;
    }
    return sum;
  };
  std::vector<double> best;
  double least = 0;
  for (const std::vector<FitParameter>& start : GemmStarts(usual)) {
    std::vector<double> found = Minimise(cost, start);
    const double value = cost(found);
    if (best.empty() || value < least) {
      best = std::move(found);
      least = value;
    }
  }
  return ToGemm(best);
}

std::vector<std::string_view> FiguresAtTheEdge(const GemmModel& fitted) {
  const std::vector<double> at = FromGemm(fitted);
  std::vector<std::string_view> figures;
  for (std::size_t i = 0; i < kGemmConstants; ++i) {
    const GemmPrior& prior = kPriors[i];
    const double margin = kEdge * (prior.high - prior.low);
    if (at[i] > prior.low + margin && at[i] < prior.high - margin) continue;
    figures.push_back(prior.figure);
  }
  return figures;
}

FitError GemmHeldOutError(std::span<const MeasuredGemm> points, const ChipSpec& chip,
                          GemmFitParts parts) {
  const auto fit = [&chip, parts](std::span<const MeasuredGemm> seen) {
    ChipSpec fitted = Bare(chip);
    if (parts != GemmFitParts::kTable) fitted.gemm = FitGemm(seen, fitted);
    if (parts != GemmFitParts::kConstants) {
      GemmResidualTable table = {.precision = seen.front().precision,
                                 .shapes = SummariseResiduals(seen, fitted)};
      IndexShapes(table);
      fitted.gemm_residuals = {std::move(table)};
    }
    return fitted;
  };
  const auto time = [](const ChipSpec& fitted, const MeasuredGemm& point) {
    return GemmTime(point, fitted);
  };
  return HeldOutError(points, FoldsBySize(points), fit, time);
}

std::vector<GemmResidual> OctaveMeans(std::span<const ShapeRatio> ratios) {
  std::map<std::vector<int>, std::vector<GemmResidual>> octaves;
  for (const auto& [s, log_ratio] : ratios) {
    octaves[{std::ilogb(s.count), std::ilogb(s.m), std::ilogb(s.n), std::ilogb(s.k)}].push_back(
        {std::log(s.count), std::log(s.m), std::log(s.n), std::log(s.k), log_ratio});
  }
  std::vector<GemmResidual> means;
  for (const auto& [octave, members] : octaves) {
    GemmResidual mean;
    const auto share = 1 / static_cast<double>(members.size());
    for (const GemmResidual& r : members) {
      mean.log_count += share * r.log_count;
      mean.log_m += share * r.log_m;
      mean.log_n += share * r.log_n;
      mean.log_k += share * r.log_k;
      mean.log_time_ratio += share * r.log_time_ratio;
    }
    means.push_back(mean);
  }
  return means;
}

std::vector<GemmResidual> SummariseResiduals(std::span<const MeasuredGemm> points,
                                             const ChipSpec& chip) {
  std::vector<ShapeRatio> ratios;
  ratios.reserve(points.size());
  for (const MeasuredGemm& p : points) {
    const DeviceRates rates = BurstRates(chip, p.precision);
    const Seconds time = MatmulTime(p.shape, chip, rates, p.accumulates_fp32);
    ratios.push_back({.shape = p.shape, .log_ratio = std::log(p.time / time)});
  }
  return OctaveMeans(ratios);
}

}  // namespace meshwright

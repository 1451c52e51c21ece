#include "estimator/fit/attention_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "estimator/fit/fit_error.h"
#include "estimator/fit/minimise.h"
#include "estimator/terms/attention.h"
#include "estimator/terms/matmul.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"

namespace meshwright {
namespace {

constexpr double kSmallHeadSize = 96;  // terms/attention.cc

struct FittedParts {
  bool forward = false;
  bool backward = false;
  bool small_heads = false;
};

FittedParts PartsOf(std::span<const MeasuredAttention> points) {
  FittedParts parts;
  for (const MeasuredAttention& p : points) {
    (p.is_backward ? parts.backward : parts.forward) = true;
    if (p.shape.head_dim <= kSmallHeadSize) parts.small_heads = true;
  }
  return parts;
}

void SetAttention(std::span<const double> x, const FittedParts& parts, AttentionModel& model) {
  std::size_t next = 0;
  if (parts.forward) {
    model.efficiency = std::exp(x[next++]);
    model.sequence_half = std::exp(x[next++]);
    model.wave_half = std::exp(x[next++]);
  }
  if (parts.small_heads) model.small_head_ratio = std::exp(x[next++]);
  if (parts.backward) {
    model.backward_time_ratio = std::exp(x[next++]);
    model.backward_sequence_half = std::exp(x[next++]);
    model.backward_wave_half = std::exp(x[next++]);
  }
}

std::vector<FitParameter> AttentionParameters(const FittedParts& parts) {
  const FitParameter sequence = {.low = 0, .start = std::log(300), .high = std::log(1e4)};
  const FitParameter wave = {.low = std::log(0.01), .start = std::log(0.9), .high = std::log(100)};
  std::vector<FitParameter> all;
  if (parts.forward) {
    all.push_back({.low = std::log(0.01), .start = std::log(0.5), .high = std::log(2)});
    all.push_back(sequence);
    all.push_back(wave);
  }
  if (parts.small_heads) {
    all.push_back({.low = std::log(0.1), .start = std::log(0.85), .high = std::log(2)});
  }
  if (parts.backward) {
    all.push_back({.low = std::log(0.5), .start = std::log(2.8), .high = std::log(20)});
    all.push_back(sequence);
    all.push_back(wave);
  }
  return all;
}

}  // namespace

Seconds AttentionTime(const MeasuredAttention& point, const ChipSpec& chip) {
  DeviceRates rates;
  rates.peak = NominalPeak(chip, point.precision).value_or(FlopsPerSecond{1});
  rates.precision = point.precision;
  return point.is_backward ? FusedAttentionBackwardTime(point.shape, point.kernel, chip, rates)
                           : FusedAttentionTime(point.shape, point.kernel, chip, rates);
}

AttentionModel FitAttention(std::span<const MeasuredAttention> points, const ChipSpec& chip) {
  ChipSpec trial = chip;
  trial.gemm_residuals.clear();
  trial.collectives.clear();
  const FittedParts parts = PartsOf(points);
  const auto cost = [&](std::span<const double> x) {
    SetAttention(x, parts, trial.attention);
    double sum = 0;
    for (const MeasuredAttention& p : points) {
      sum += PointCost(std::log(AttentionTime(p, trial) / p.time));
    }
    return sum;
  };
  AttentionModel model = chip.attention;
  SetAttention(Minimise(cost, AttentionParameters(parts)), parts, model);
  return model;
}

FitError AttentionHeldOutError(std::span<const MeasuredAttention> points, const ChipSpec& chip) {
  std::map<std::tuple<double, double>, int> fold_of;
  for (const MeasuredAttention& p : points) fold_of[{p.shape.heads, p.shape.query_tokens}] = 0;
  int next = 0;
  for (auto& [shape, fold] : fold_of) fold = next++ % kFitFolds;
  std::vector<int> folds;
  folds.reserve(points.size());
  for (const MeasuredAttention& p : points) {
    folds.push_back(fold_of[{p.shape.heads, p.shape.query_tokens}]);
  }
  const auto fit = [&chip](std::span<const MeasuredAttention> seen) {
    ChipSpec fitted = chip;
    fitted.attention = FitAttention(seen, chip);
    return fitted;
  };
  const auto time = [](const ChipSpec& fitted, const MeasuredAttention& point) {
    return AttentionTime(point, fitted);
  };
  return HeldOutError(points, folds, fit, time);
}

}  // namespace meshwright

#include "server/tuner/learning/residual_process.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Number of runs that the given spreads count as. A first run that is three deviations off widens
// them by 1.6, ((4 + 9) / 5)^(1/2); one that is ten off, as some were in congestion, by 4.6.
constexpr double kDegrees = 4;

double RecomputedShare(const RecomputePlan& recompute, int layer_count) {
  switch (recompute.granularity) {
    case RecomputeGranularity::kNone:
      return 0;
    case RecomputeGranularity::kSelective:
      return 0.5;
    case RecomputeGranularity::kFull:
      break;
  }
  const std::vector<int>& counts = recompute.layer_counts;
  if (counts.empty()) return 1;
  const std::vector<int>& selective = recompute.selective_layer_counts;
  return (std::accumulate(counts.begin(), counts.end(), 0.0) +
          0.5 * std::accumulate(selective.begin(), selective.end(), 0.0)) /
         layer_count;
}

}  // namespace

PlanFeatures FeaturesOf(const ParallelPlan& plan, int layer_count) {
  return {std::log2(plan.micro_batch_size),  std::log2(plan.tensor_parallel),
          std::log2(plan.pipeline_parallel), std::log2(plan.context_parallel),
          std::log2(plan.expert_parallel),   std::log2(plan.data_parallel),
          std::log2(plan.virtual_pipeline),  RecomputedShare(plan.recompute, layer_count),
          plan.sequence_parallel ? 1.0 : 0.0};
}

double Likeness(const PlanFeatures& a, const PlanFeatures& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
  return std::exp(-squares / 2);
}

ResidualProcess::ResidualProcess(std::vector<PlanFeatures> plans, const ResidualSpread& spread)
    : plans_(std::move(plans)), spread_(spread) {
  beliefs_.reserve(plans_.size());
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    beliefs_.push_back({.variance = Covariance(i, i)});
  }
}

double ResidualProcess::Covariance(std::size_t a, std::size_t b) const {
  const double own = a == b ? spread_.own * spread_.own : 0;
  return spread_.all * spread_.all +
         spread_.neighbours * spread_.neighbours * Likeness(plans_[a], plans_[b]) + own;
}

Normal ResidualProcess::At(std::size_t plan) const {
  const double scale = (kDegrees + surprise_) / (kDegrees + observation_count());
  return {.mean = beliefs_[plan].mean, .variance = beliefs_[plan].variance * std::max(1.0, scale)};
}

void ResidualProcess::Observe(std::size_t plan, double residual) {
  const double deviation = std::sqrt(beliefs_[plan].variance);
  const double surprise = (residual - beliefs_[plan].mean) / deviation;
  surprise_ += surprise * surprise;
  std::vector<double> row(plans_.size());
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    double covariance = Covariance(plan, i);
    for (const std::vector<double>& earlier : factor_) covariance -= earlier[plan] * earlier[i];
    row[i] = covariance / deviation;
  }
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    beliefs_[i].mean += row[i] * surprise;
    beliefs_[i].variance -= row[i] * row[i];
  }
  beliefs_[plan] = {.mean = residual, .variance = 0};  // removes rounding errors
  factor_.push_back(std::move(row));
}

}  // namespace meshwright

#include "estimator/learning/interval.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>

#include "estimator/learning/calibration.h"
#include "estimator/learning/error_sources.h"
#include "estimator/learning/run_residuals.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/layer_list.h"

namespace meshwright {
namespace {

// Returns what weakly known constants of a chip add to the spread of its framework, which was found
// on chips with measured operators: held-out p90 errors of operator forms are 9-14 %, and chips
// without measurements differ by a factor of two in the share of their nominal peak
// (docs/cost_model/intervals.md).
double SigmaOf(Provenance provenance) {
  switch (provenance) {
    case Provenance::kMeasured:
    case Provenance::kFitted:
      return 0;
    case Provenance::kTransferred:
      return 0.06;
    case Provenance::kPublished:
      return 0.15;
    case Provenance::kAssumed:
      return 0.25;
  }
  std::abort();
}

// Spread that low confidence in a chip's own figures adds. Reports of one chip that disagree do so
// by 1.38 (memory bandwidth of the MLU590, 2000 to 2760 GB/s) and 1.4 (of the BR100, 1640 to 2300):
// 80 % lie within a factor of 1.18 of the middle.
constexpr double kDoubtSigma = 0.13;

// Spread that other chips add; assumed.
constexpr double kOtherChipsSigma = 0.05;
// Spread that each doubling of the devices beyond the largest checked run adds. Public series of
// runs leave the estimates by 0.02 (MegaScale, 256 to 12,288 devices) to 0.14 (InternEvo, 128 to
// 1,024) for each doubling; this is about their geometric mean.
constexpr double kDoublingSigma = 0.05;
constexpr int kLargestScale = 4;  // devices relative to the largest run checked
// Spread of replicas that differ. The nine measured runs of mixed clusters scatter by 0.16 about
// the factor that they have in common (docs/mixed-clusters/plans.md).
constexpr double kReplicasSigma = 0.16;
constexpr double kMattersAbove = 0.1;  // share of the step from which a cause matters
constexpr double kMemorySigma = 0.05;
constexpr double kAssumedMemorySigma = 0.10;
constexpr double kLeastMemorySigma = 0.02;
// Share of the capacity above which the allocator starts to retry and the step slows down.
constexpr double kMemoryPressure = 0.9;
constexpr double kPressureRatio = 1.3;

Provenance ProvenanceOf(TimeCause cause, const ChipSpec& chip, const FrameworkProfile& profile) {
  switch (cause) {
    case TimeCause::kMatmul:
      return chip.gemm_provenance;
    case TimeCause::kAttention:
      return chip.attention_provenance;
    case TimeCause::kMemoryBound:
    case TimeCause::kVocabulary:
    case TimeCause::kOptimizer:
      return chip.memory_bound_provenance;
    case TimeCause::kTensorParallel:
    case TimeCause::kContextParallel:
    case TimeCause::kExpertParallel:
    case TimeCause::kPipelineP2p:
    case TimeCause::kDataParallel:
      return chip.collectives_provenance;
    case TimeCause::kRecompute:
    case TimeCause::kPipelineBubble:
      return chip.gemm_provenance;  // made of the same kernels
    case TimeCause::kActivationOffload:
      return Provenance::kAssumed;  // that of the host link
    case TimeCause::kHost:
    case TimeCause::kFixed:
      return profile.provenance;
  }
  std::abort();
}

// Returns true for causes that the computation of layers has.
bool IsOfLayers(TimeCause cause) {
  return cause == TimeCause::kMatmul || cause == TimeCause::kAttention ||
         cause == TimeCause::kMemoryBound || cause == TimeCause::kRecompute ||
         cause == TimeCause::kPipelineBubble;
}

// Returns the log-normal spread whose central 80 % ends at `ratio`, with `variance` added.
double WithVariance(double ratio, double variance) {
  const double sigma = std::max(0.0, std::log(ratio)) / kCentral80;
  return std::sqrt(sigma * sigma + variance);
}

bool KnowsChips(const FrameworkProfile& profile, const ClusterSpec& cluster) {
  const std::vector<std::string>& chips = profile.checked_chips;
  return std::ranges::all_of(cluster.pools, [&](const NodePool& pool) {
    return std::ranges::find(chips, pool.chip.id) != chips.end();
  });
}

// Returns the variance that devices beyond those of the largest checked run add.
double ScaleVariance(const FrameworkProfile& profile, const ClusterSpec& cluster) {
  if (profile.checked_device_count == 0) return 0;
  const double ratio = static_cast<double>(DeviceCount(cluster)) / profile.checked_device_count;
  const double beyond = kDoublingSigma * std::max(0.0, std::log2(ratio));
  return beyond * beyond;
}

// Sources with a smaller share of a variance are not told.
constexpr double kLeastShare = 0.001;

// The variance above a prediction, by source.
class VariancesAbove {
 public:
  void Add(std::string_view source, double variance) {
    if (variance > 0) variances_[std::string(source)] += variance;
  }

  void Scale(double ratio) {
    for (auto& [source, variance] : variances_) variance *= ratio;
  }

  double Sum() const {
    double sum = 0;
    for (const auto& [source, variance] : variances_) sum += variance;
    return sum;
  }

  // Returns the share of each source but those that are too small to matter; they add up to 1.
  std::map<std::string, double> Shares() const {
    const double least = kLeastShare * Sum();
    VariancesAbove kept;
    for (const auto& [source, variance] : variances_) {
      if (variance >= least) kept.Add(source, variance);
    }
    const double sum = kept.Sum();
    for (auto& [source, variance] : kept.variances_) variance /= sum;
    return kept.variances_;
  }

 private:
  std::map<std::string, double> variances_ = {};
};

}  // namespace

bool WasChecked(const FrameworkProfile& profile, const ClusterSpec& cluster) {
  return KnowsChips(profile, cluster) &&
         DeviceCount(cluster) <= kLargestScale * profile.checked_device_count;
}

Spread SpreadOf(const Estimate& estimate, const ChipSpec& chip, const EstimatorProblem& problem,
                const NodeCrossings& crossings, const Calibration& calibration,
                const PlanPoint& point) {
  Spread spread;
  spread.provenance = Provenance::kMeasured;
  VariancesAbove sources;
  double variance = 0;  // on both sides
  const auto add = [&](std::string_view source, double more) {
    variance += more;
    sources.Add(source, more);
  };
  if (!KnowsChips(problem.profile, problem.cluster)) {
    add(uncertainty_source::kChips, kOtherChipsSigma * kOtherChipsSigma);
  }
  add(uncertainty_source::kScale, ScaleVariance(problem.profile, problem.cluster));
  if (chip.confidence == Confidence::kLow) {
    add(uncertainty_source::kChips, kDoubtSigma * kDoubtSigma);
  }
  const bool is_unconfirmed = HasUnconfirmedLayers(problem.model);
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    const double share = estimate.breakdown[i] / estimate.step_time;
    const auto cause = static_cast<TimeCause>(i);
    Provenance from = ProvenanceOf(cause, chip, problem.profile);
    if (is_unconfirmed && IsOfLayers(cause)) from = Provenance::kAssumed;
    add(Word(cause), share * share * SigmaOf(from) * SigmaOf(from));
    if (share > 0) spread.breakdown_provenance[cause] = from;
    // The runs behind the profile's spread have hardly any experts that are spread over nodes.
    const ErrorSource source = SourceOf(cause, crossings[i]);
    if (source == ErrorSource::kExpertsAcrossNodes) {
      add(Word(cause), share * share * ErrorSigma(source) * ErrorSigma(source));
    }
    if (share >= kMattersAbove) spread.provenance = std::max(spread.provenance, from);
  }
  spread.provenance = std::max(spread.provenance, problem.profile.provenance);
  spread.time_low = WithVariance(1 / problem.profile.low_time_ratio, variance);
  spread.time_high = WithVariance(problem.profile.high_time_ratio, variance);
  sources.Add(uncertainty_source::kFramework, spread.time_high * spread.time_high - variance);
  if (!calibration.time.points.empty()) {
    // The spread of the runs replaces that of the constants, as far as the runs are about this
    // plan.
    const double own = FactorVariance(calibration.time, point);
    const double open = OpenShare(calibration.time, own);
    const auto blend = [&](double cold) {
      return std::sqrt(open * cold * cold + (1 - open) * own + calibration.time.noise_variance);
    };
    spread.time_low = blend(spread.time_low);
    spread.time_high = blend(spread.time_high);
    sources.Scale(open);
    sources.Add(uncertainty_source::kMeasuredRuns,
                (1 - open) * own + calibration.time.noise_variance);
  }
  const double unconfirmed = UnconfirmedVariance(point, calibration);
  spread.time_low = std::sqrt(spread.time_low * spread.time_low + unconfirmed);
  spread.time_high = std::sqrt(spread.time_high * spread.time_high + unconfirmed);
  sources.Add(uncertainty_source::kReplicas, unconfirmed);
  if (estimate.reserved_memory / estimate.memory_capacity > kMemoryPressure) {
    spread.time_high *= kPressureRatio;
    sources.Add(uncertainty_source::kMemoryPressure,
                (kPressureRatio * kPressureRatio - 1) * sources.Sum());
  }
  spread.uncertainty_ratio_by_source = sources.Shares();
  spread.memory = MemorySigma(problem, calibration);
  return spread;
}

double UnconfirmedVariance(const PlanPoint& point, const Calibration& calibration) {
  const bool is_known = std::ranges::any_of(
      calibration.time.points, [](const PlanPoint& run) { return run.replicas_differ; });
  return point.replicas_differ && !is_known ? kReplicasSigma * kReplicasSigma : 0;
}

double MemorySigma(const EstimatorProblem& problem, const Calibration& calibration) {
  if (calibration.bounded_memory.has_value()) {
    return std::max(kLeastMemorySigma, std::sqrt(calibration.bounded_memory->variance));
  }
  if (calibration.memory.points.empty()) {
    const bool known = problem.profile.provenance < Provenance::kAssumed;
    return known ? kMemorySigma : kAssumedMemorySigma;
  }
  static_assert(kMemoryPrior.plan == 0, "plans have no part of their own, so any point will do");
  const double own = FactorVariance(calibration.memory, {}) + calibration.memory.noise_variance;
  return std::max(kLeastMemorySigma, std::sqrt(own));
}

double ProbabilityBelow(double median, double limit, double log_sigma) {
  if (median <= 0) return 1;
  return 0.5 * std::erfc(-std::log(limit / median) / (log_sigma * std::sqrt(2.0)));
}

double LargestMedianRatio(double probability, double log_sigma) {
  // Bisection: the standard library has no inverse of erfc.
  double low = -10 * log_sigma;
  double high = 10 * log_sigma;
  for (int round = 0; round < 100; ++round) {
    const double middle = (low + high) / 2;
    (ProbabilityBelow(std::exp(middle), 1, log_sigma) >= probability ? low : high) = middle;
  }
  return std::exp(low);
}

}  // namespace meshwright

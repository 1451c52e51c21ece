#include "estimator/learning/run_residuals.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace meshwright {
namespace {

using Eigen::Index;
using Eigen::MatrixXd;
using Eigen::VectorXd;

// These constants, like the priors and similarities of the header, were chosen by leaving out one
// source of measured runs after the other: scripts/fit_residuals.py, docs/cost_model/learning.md.
// Distances within which plans share their residual, in factors of two.
constexpr PlanPoint kReach = {.work = 1.5, .tensor_parallel = 1.5, .pipeline_parallel = 1.5};
constexpr double kDegreesOfFreedom = 2;  // few, so that an outlier weighs little
constexpr double kScaleRows = 2;         // weight of the priors' scale, in runs
constexpr int kRounds = 8;               // later rounds change weights by less than a thousandth
// Largest distance of a plan's own factor from 0; it grows in proportion if runs agree on a factor
// that the prior did not allow for.
constexpr double kMaxPlanLogFactor = 0.25;
// The matrix is inverted in each round; 128 runs take 10 ms.
constexpr std::size_t kMaxRuns = 128;

double Squared(double x) { return x * x; }

double Similarity(const RunResidual& a, const RunResidual& b, const ResidualPrior& prior) {
  if (a.job == b.job) return 1;
  if (a.version != b.version) return kOtherVersionSimilarity;
  return a.nodes == b.nodes ? prior.same_nodes_similarity : prior.other_nodes_similarity;
}

constexpr RunResidual kAsked = {};

// Numbers the other jobs by the contents of their runs, so that nothing depends on their order.
void Renumber(std::vector<RunResidual>& runs) {
  std::map<int, std::vector<RunResidual>> runs_of;
  for (RunResidual run : runs) {
    const int job = std::exchange(run.job, 0);
    runs_of[job].push_back(run);
  }
  std::vector<std::pair<std::vector<RunResidual>, int>> jobs;
  for (auto& [job, own] : runs_of) {
    std::ranges::sort(own);
    if (job != kAsked.job) jobs.emplace_back(std::move(own), job);
  }
  std::ranges::sort(jobs);
  std::map<int, int> number = {{kAsked.job, kAsked.job}};
  for (const auto& [own, job] : jobs) number.emplace(job, static_cast<int>(number.size()));
  for (RunResidual& run : runs) run.job = number.at(run.job);
}

// Returns at most `most` of the sorted runs, evenly spread, so that no kind is preferred.
std::vector<RunResidual> Thinned(const std::vector<RunResidual>& runs, std::size_t most) {
  if (runs.size() <= most) return runs;
  std::vector<RunResidual> kept;
  for (std::size_t i = 0; i < most; ++i) kept.push_back(runs[i * runs.size() / most]);
  return kept;
}

// Returns the runs in an order that does not depend on the order they came in; those of the
// question first.
std::vector<RunResidual> Ordered(std::span<const RunResidual> runs) {
  std::vector<RunResidual> all(runs.begin(), runs.end());
  Renumber(all);
  std::ranges::sort(all);
  const auto others = std::stable_partition(
      all.begin(), all.end(), [](const RunResidual& run) { return run.job == kAsked.job; });
  std::vector<RunResidual> kept = Thinned({all.begin(), others}, kMaxRuns);
  const std::vector<RunResidual> rest = Thinned({others, all.end()}, kMaxRuns - kept.size());
  kept.insert(kept.end(), rest.begin(), rest.end());
  return kept;
}

MatrixXd PriorCovariance(const std::vector<RunResidual>& runs, const ResidualPrior& prior) {
  const auto n = static_cast<Index>(runs.size());
  MatrixXd covariance(n, n);
  for (Index i = 0; i < n; ++i) {
    for (Index j = 0; j <= i; ++j) {
      const RunResidual& a = runs[static_cast<std::size_t>(i)];
      const RunResidual& b = runs[static_cast<std::size_t>(j)];
      covariance(i, j) = covariance(j, i) =
          Similarity(a, b, prior) *
          (Squared(prior.job) + Squared(prior.plan) * Likeness(a.point, b.point));
    }
  }
  return covariance;
}

double MedianOf(VectorXd values) {
  std::sort(values.begin(), values.end());
  const Index n = values.size();
  return n % 2 == 1 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

// The scales of a Student-t process with Student-t noise, by expectation and maximisation
// (Lange, Little, Taylor 1989; Shah, Wilson, Ghahramani 2014, arXiv 1402.4306).
struct Scales {
  double signal = 1;      // factor on the prior covariance
  double noise = 0;       // variance of a run with weight 1
  VectorXd weights = {};  // one for each run; small for outliers
};

struct Posterior {
  MatrixXd precision;
  VectorXd weights;
};

Posterior Solve(const MatrixXd& covariance, const VectorXd& residuals, const Scales& scales) {
  MatrixXd total = scales.signal * covariance;
  total.diagonal() += scales.noise * scales.weights.cwiseInverse();
  const auto n = residuals.size();
  Posterior posterior;
  posterior.precision = total.llt().solve(MatrixXd::Identity(n, n));
  posterior.weights = posterior.precision * residuals;
  return posterior;
}

VectorXd RobustWeights(const VectorXd& squares, double noise) {
  return (kDegreesOfFreedom + 1) / (kDegreesOfFreedom + squares.array() / noise);
}

void Improve(const MatrixXd& covariance, const VectorXd& residuals, const ResidualPrior& prior,
             Scales& scales) {
  const Posterior posterior = Solve(covariance, residuals, scales);
  const auto n = static_cast<double>(residuals.size());
  const VectorXd noise = scales.noise * scales.weights.cwiseInverse();
  // The remainder of each run without the factor, and the variance of the factor there.
  const VectorXd left = noise.cwiseProduct(posterior.weights);
  const VectorXd open =
      (noise - noise.cwiseAbs2().cwiseProduct(posterior.precision.diagonal())).cwiseMax(0);
  const VectorXd squares = left.cwiseAbs2() + open;
  scales.weights = RobustWeights(squares, scales.noise);
  scales.noise = (prior.noise_rows * Squared(prior.noise) + scales.weights.dot(squares)) /
                 (prior.noise_rows + n);
  const double surprise = scales.signal * posterior.weights.dot(covariance * posterior.weights) +
                          n - scales.signal * posterior.precision.cwiseProduct(covariance).sum();
  // A full step would take signal * surprise. This one ends between the prior and the likeliest
  // scale in proportion: few runs of sources that scatter widely then promise less
  // (docs/cost_model/learning.md).
  scales.signal = (kScaleRows + surprise) / (kScaleRows + n);
}

// Returns the covariances of a plan of the question with the runs.
VectorXd CovarianceWith(const FittedResiduals& fitted, const PlanPoint& point) {
  VectorXd result(static_cast<Index>(fitted.points.size()));
  for (std::size_t i = 0; i < fitted.points.size(); ++i) {
    result[static_cast<Index>(i)] =
        fitted.similarities[i] *
        (fitted.job_variance + fitted.plan_variance * Likeness(point, fitted.points[i]));
  }
  return result;
}

double Log2(double value) { return std::log2(std::max(1.0, value)); }

FittedResiduals Unfitted(const ResidualPrior& prior) {
  return {.job_variance = Squared(prior.job),
          .plan_variance = Squared(prior.plan),
          .noise_variance = Squared(prior.noise)};
}

// Fits at least one run.
FittedResiduals FitOrdered(const std::vector<RunResidual>& ordered, const ResidualPrior& prior) {
  FittedResiduals fitted = Unfitted(prior);
  VectorXd residuals(static_cast<Index>(ordered.size()));
  for (std::size_t i = 0; i < ordered.size(); ++i) {
    residuals[static_cast<Index>(i)] = ordered[i].log_ratio;
    fitted.points.push_back(ordered[i].point);
    fitted.similarities.push_back(Similarity(ordered[i], kAsked, prior));
  }
  const MatrixXd covariance = PriorCovariance(ordered, prior);
  // Starts at the median, which one outlier does not move, and with a prior that allows for it:
  // runs that agree with one another on a large factor are not all outliers.
  const auto n = static_cast<double>(residuals.size());
  const double median = MedianOf(residuals);
  const double middle = median * n / (n + 1);
  const double expected = Squared(prior.job) + Squared(prior.plan);
  Scales scales = {.signal = n > 1 ? std::max(1.0, Squared(median) / expected) : 1,
                   .noise = Squared(prior.noise)};
  scales.weights =
      RobustWeights((residuals.array() - (n > 1 ? median : middle)).square(), scales.noise);
  for (int round = 0; round < kRounds; ++round) Improve(covariance, residuals, prior, scales);

  const Posterior posterior = Solve(covariance, residuals, scales);
  fitted.job_variance *= scales.signal;
  fitted.plan_variance *= scales.signal;
  fitted.most_plan_log_factor = kMaxPlanLogFactor * std::max(1.0, scales.signal);
  fitted.noise_variance = scales.noise;
  fitted.weights.assign(posterior.weights.begin(), posterior.weights.end());
  fitted.precision.assign(posterior.precision.data(),
                          posterior.precision.data() + posterior.precision.size());
  return fitted;
}

auto FieldsOf(const ResidualPrior& prior) {
  return std::tie(prior.job, prior.plan, prior.noise, prior.noise_rows, prior.same_nodes_similarity,
                  prior.other_nodes_similarity);
}

// A fit that was made before.
struct KnownFit {
  std::vector<RunResidual> ordered = {};
  ResidualPrior prior = {};
  FittedResiduals fitted = {};
};

// A thread remembers its last large fits: many questions learn from the same runs, and a fit of
// 128 takes longer than the search for a small model. The result is the same without this.
constexpr std::size_t kKnownFits = 4;
constexpr std::size_t kLeastKnownRuns = 32;

// A thread remembers the last factor too, because the plans of an answer have one precision.
struct KnownFactor {
  std::vector<double> precision = {};
  Eigen::LLT<MatrixXd> factor = {};
};

const Eigen::LLT<MatrixXd>& FactorOf(const std::vector<double>& precision, Index size) {
  thread_local std::optional<KnownFactor> known;
  if (!known.has_value() || known->precision != precision) {
    const Eigen::Map<const MatrixXd> matrix(precision.data(), size, size);
    known = KnownFactor{.precision = precision, .factor = matrix.llt()};
  }
  return known->factor;
}

}  // namespace

double Likeness(const PlanPoint& a, const PlanPoint& b) {
  if (a.replicas_differ != b.replicas_differ) return 0;
  const double distance =
      Squared((a.work - b.work) / kReach.work) +
      Squared((a.tensor_parallel - b.tensor_parallel) / kReach.tensor_parallel) +
      Squared((a.pipeline_parallel - b.pipeline_parallel) / kReach.pipeline_parallel);
  return std::exp(-distance / 2);
}

double SimilarityToQuestion(const RunResidual& run, const ResidualPrior& prior) {
  return Similarity(run, kAsked, prior);
}

PlanPoint PointOf(const ParallelPlan& plan, const EstimatorProblem& problem) {
  double tensor = plan.tensor_parallel;
  double context = plan.context_parallel;
  double pipeline = plan.pipeline_parallel;
  double micro_batch = plan.micro_batch_size;
  const std::vector<StagePlan>& stages = FirstPipeline(plan);
  if (!stages.empty()) {
    const StagePlan& first = stages.front();
    tensor = first.tensor_parallel;
    context = first.context_parallel;
    pipeline = static_cast<double>(stages.size());
    micro_batch = first.micro_batch_size;
  }
  return {.work = Log2(micro_batch * problem.workload.sequence_length * problem.model.hidden_size /
                       (context * tensor)),
          .tensor_parallel = Log2(tensor),
          .pipeline_parallel = Log2(pipeline),
          .replicas_differ = !plan.replica_groups.empty()};
}

FittedResiduals FitResiduals(std::span<const RunResidual> runs, const ResidualPrior& prior) {
  if (runs.empty()) return Unfitted(prior);
  const std::vector<RunResidual> ordered = Ordered(runs);
  if (ordered.size() < kLeastKnownRuns) return FitOrdered(ordered, prior);
  thread_local std::deque<KnownFit> known;
  const auto found = std::ranges::find_if(known, [&](const KnownFit& fit) {
    return FieldsOf(fit.prior) == FieldsOf(prior) && fit.ordered == ordered;
  });
  if (found != known.end()) return found->fitted;
  if (known.size() == kKnownFits) known.pop_back();
  known.push_front({.ordered = ordered, .prior = prior, .fitted = FitOrdered(ordered, prior)});
  return known.front().fitted;
}

double JobLogFactor(const FittedResiduals& fitted) {
  double sum = 0;
  for (std::size_t i = 0; i < fitted.points.size(); ++i) {
    sum += fitted.similarities[i] * fitted.weights[i];
  }
  return fitted.job_variance * sum;
}

double PlanLogFactor(const FittedResiduals& fitted, const PlanPoint& point) {
  double sum = 0;
  for (std::size_t i = 0; i < fitted.points.size(); ++i) {
    sum += fitted.similarities[i] * fitted.weights[i] * Likeness(point, fitted.points[i]);
  }
  return std::clamp(fitted.plan_variance * sum, -fitted.most_plan_log_factor,
                    fitted.most_plan_log_factor);
}

double FactorVariance(const FittedResiduals& fitted, const PlanPoint& point) {
  const double prior = fitted.job_variance + fitted.plan_variance;
  if (fitted.points.empty()) return prior;
  const VectorXd with = CovarianceWith(fitted, point);
  const Eigen::Map<const MatrixXd> precision(fitted.precision.data(), with.size(), with.size());
  return std::max(0.0, prior - with.dot(precision * with));
}

double OpenShare(const FittedResiduals& fitted, double factor_variance) {
  const double prior = fitted.job_variance + fitted.plan_variance;
  return prior > 0 ? factor_variance / prior : 1;
}

std::vector<double> LearntCoordinates(const FittedResiduals& fitted, const PlanPoint& point) {
  const VectorXd with = CovarianceWith(fitted, point);
  const VectorXd coordinates = FactorOf(fitted.precision, with.size()).matrixU() * with;
  return {coordinates.begin(), coordinates.end()};
}

double Disagreement(std::span<const RunResidual> runs, const ResidualPrior& prior) {
  std::vector<RunResidual> others;
  std::vector<double> own;
  std::ranges::copy_if(runs, std::back_inserter(others),
                       [](const RunResidual& run) { return run.job != 0; });
  if (others.empty() || others.size() == runs.size()) return 0;
  const FittedResiduals fitted = FitResiduals(others, prior);
  const double job = JobLogFactor(fitted);
  double variance = 0;
  for (const RunResidual& run : runs) {
    if (run.job != 0) continue;
    own.push_back(run.log_ratio - job - PlanLogFactor(fitted, run.point));
    variance += FactorVariance(fitted, run.point);
  }
  const auto n = static_cast<double>(own.size());
  const Eigen::Map<const VectorXd> distances(own.data(), static_cast<Index>(own.size()));
  return std::abs(MedianOf(distances)) / std::sqrt((variance + fitted.noise_variance) / n);
}

}  // namespace meshwright

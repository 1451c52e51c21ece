#include "estimator/learning/uncertainty.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>

#include "estimator/learning/error_sources.h"
#include "estimator/learning/interval.h"
#include "estimator/learning/run_residuals.h"
#include "search_space/spec/cluster.h"

namespace meshwright {
namespace {

double Square(double x) { return x * x; }

constexpr int kDraws = 1000;
constexpr std::uint32_t kDrawSeed = 1;

// Draws from the standard normal distribution (Box and Muller). The distributions of the standard
// library may give other numbers elsewhere.
double DrawNormal(std::mt19937& random) {
  const double radius =
      (static_cast<double>(random()) + 1) / (static_cast<double>(random.max()) + 2);
  const double angle = static_cast<double>(random()) / (static_cast<double>(random.max()) + 1);
  return std::sqrt(-2 * std::log(radius)) * std::cos(2 * std::numbers::pi * angle);
}

// Returns the covariance of the errors of two plans of one question, or the variance of one plan.
// RatioSigma is that of their difference.
double Covariance(const TimeUncertainty& a, const TimeUncertainty& b, bool is_same) {
  double covariance = is_same ? a.noise_variance : 0;
  for (std::size_t i = 0; i < kErrorSourceCount; ++i) covariance += a.loads[i] * b.loads[i];
  double rest = std::sqrt(a.plan_variance * b.plan_variance) * Likeness(a.point, b.point);
  for (std::size_t i = 0; i < std::min(a.learnt.size(), b.learnt.size()); ++i) {
    rest -= a.learnt[i] * b.learnt[i];
  }
  return covariance + rest;
}

std::string FoundationOf(const EstimatorProblem& problem) {
  std::string text = problem.profile.name + " " + problem.profile.version;
  for (const NodePool& pool : problem.cluster.pools) text.append(" ").append(pool.chip.id);
  return text;
}

}  // namespace

TimeUncertainty UncertaintyOf(const Estimate& estimate, const PlanPoint& point,
                              const NodeCrossings& crossings, const EstimatorProblem& problem,
                              const Calibration& calibration) {
  const double width = std::log(estimate.step_time_high / estimate.step_time_low);
  TimeUncertainty uncertainty = {.point = point,
                                 .plan_variance = Square(kTimePrior.plan),
                                 .noise_variance = Square(kTimePrior.noise),
                                 .foundation = FoundationOf(problem),
                                 .variance = Square(width / (2 * kCentral80))};
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    const ErrorSource source = SourceOf(static_cast<TimeCause>(i), crossings[i]);
    uncertainty.loads[static_cast<std::size_t>(source)] +=
        ErrorSigma(source) * (estimate.breakdown[i] / estimate.step_time);
  }
  if (!calibration.time.points.empty()) {
    uncertainty.plan_variance = calibration.time.plan_variance;
    uncertainty.noise_variance = calibration.time.noise_variance;
    uncertainty.learnt = LearntCoordinates(calibration.time, point);
  }
  uncertainty.plan_variance += UnconfirmedVariance(point, calibration);
  return uncertainty;
}

double RatioSigma(const TimeUncertainty& a, const TimeUncertainty& b) {
  if (a.foundation != b.foundation) return std::sqrt(a.variance + b.variance);
  double variance = 0;
  for (std::size_t i = 0; i < kErrorSourceCount; ++i) variance += Square(a.loads[i] - b.loads[i]);
  double rest = (a.plan_variance + b.plan_variance) * (1 - Likeness(a.point, b.point));
  for (std::size_t i = 0; i < std::min(a.learnt.size(), b.learnt.size()); ++i) {
    rest -= Square(a.learnt[i] - b.learnt[i]);
  }
  return std::sqrt(variance + std::max(0.0, rest) + a.noise_variance + b.noise_variance);
}

double FasterProbability(Seconds first, const TimeUncertainty& of_first, Seconds second,
                         const TimeUncertainty& of_second) {
  return ProbabilityBelow(first.count(), second.count(), RatioSigma(of_first, of_second));
}

RatioBounds StepTimeRatio(Seconds first, const TimeUncertainty& of_first, Seconds second,
                          const TimeUncertainty& of_second) {
  const double ratio = second / first;
  const double spread = std::exp(kCentral80 * RatioSigma(of_first, of_second));
  return {.low = ratio / spread, .high = ratio * spread};
}

std::vector<double> FastestProbabilities(const std::vector<Seconds>& steps,
                                         const std::vector<TimeUncertainty>& uncertainties) {
  const auto n = static_cast<Eigen::Index>(steps.size());
  Eigen::MatrixXd covariance(n, n);
  for (Eigen::Index i = 0; i < n; ++i) {
    for (Eigen::Index j = 0; j < n; ++j) {
      covariance(i, j) = Covariance(uncertainties[static_cast<std::size_t>(i)],
                                    uncertainties[static_cast<std::size_t>(j)], i == j);
    }
  }
  // Robust where plans are alike and their covariance has no inverse.
  const Eigen::LDLT<Eigen::MatrixXd> factor(covariance);
  const Eigen::VectorXd scales = factor.vectorD().cwiseMax(0).cwiseSqrt();
  std::mt19937 random(kDrawSeed);
  std::vector<int> wins(steps.size(), 0);
  for (int draw = 0; draw < kDraws; ++draw) {
    Eigen::VectorXd errors(n);
    for (Eigen::Index i = 0; i < n; ++i) errors(i) = scales(i) * DrawNormal(random);
    errors = factor.transpositionsP().transpose() * (factor.matrixL() * errors).eval();
    std::size_t fastest = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const double log_time = std::log(steps[i].count()) + errors(static_cast<Eigen::Index>(i));
      if (log_time >= least) continue;
      least = log_time;
      fastest = i;
    }
    ++wins[fastest];
  }
  std::vector<double> shares;
  for (const int count : wins) shares.push_back(static_cast<double>(count) / kDraws);
  return shares;
}

}  // namespace meshwright

#pragma once

#include <span>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Where a plan stands among others, as far as the model's error depends on it: base-2 logarithms,
// so that a distance of 1 is a factor of 2. All of it is set once a plan's parallel sizes and its
// micro-batch are: plans that a search bounds or compares together share one point.
struct PlanPoint {
  double work = 0;  // elements of a layer's input on one rank
  double tensor_parallel = 0;
  double pipeline_parallel = 0;
  auto operator<=>(const PlanPoint&) const = default;
};

// Of a plan with stages of their own, where its first stage stands.
PlanPoint PointOf(const ParallelPlan& plan, const EstimatorProblem& problem);

// A measured run beside the model without history.
struct RunResidual {
  double log_ratio = 0;  // log(measured / modelled)
  PlanPoint point = {};
  int job = 0;      // equal for runs of one model, workload and cluster; 0: those of the question
  int version = 0;  // of the framework; 0: that of the question
  int nodes = 0;    // equal for clusters of the same nodes, however many; 0: those of the question
  auto operator<=>(const RunResidual&) const = default;
};

// What is assumed before the first run, as standard deviations of logarithms.
struct ResidualPrior {
  double job = 0;         // of a job's own factor
  double plan = 0;        // of what differs between its plans
  double noise = 0;       // of one run
  double noise_rows = 1;  // so many runs' worth is `noise` known
  // How alike the model's errors are in two jobs under the same version of the framework, 1 being
  // one job (docs/cost_model.md "Learning from runs").
  double same_nodes_similarity = 0;
  double other_nodes_similarity = 0;
};
inline constexpr ResidualPrior kTimePrior = {.job = 0.03,
                                             .plan = 0.05,
                                             .noise = 0.02,
                                             .same_nodes_similarity = 0.9,
                                             .other_nodes_similarity = 0.65};
inline constexpr ResidualPrior kMemoryPrior = {.job = 0.1,
                                               .plan = 0,
                                               .noise = 0.04,
                                               .same_nodes_similarity = 0.8,
                                               .other_nodes_similarity = 0.8};
// Under another version, on whatever nodes.
inline constexpr double kOtherVersionSimilarity = 0.4;
double SimilarityToQuestion(const RunResidual& run, const ResidualPrior& prior);

// What runs have taught, as a Gaussian process over plans of the question's job. Without runs its
// factor is 1.
struct FittedResiduals {
  std::vector<PlanPoint> points = {};     // of the runs
  std::vector<double> similarities = {};  // of their jobs with the question's
  std::vector<double> weights = {};       // inverse covariance times residuals
  std::vector<double> precision = {};     // inverse covariance, row by row
  double job_variance = 0;
  double plan_variance = 0;
  double noise_variance = 0;        // of one more run
  double most_plan_log_factor = 0;  // PlanLogFactor is never farther from 0
};

// Runs enter in any order; the farthest from the question are left out beyond a fixed number.
FittedResiduals FitResiduals(std::span<const RunResidual> runs, const ResidualPrior& prior);

// Logarithm of the factor of the whole job, and what a plan's own adds to it.
double JobLogFactor(const FittedResiduals& fitted);
double PlanLogFactor(const FittedResiduals& fitted, const PlanPoint& point);
// Of the sum of the two, and its share of what it was before the first run (1: nothing was learnt).
double FactorVariance(const FittedResiduals& fitted, const PlanPoint& point);
double OpenShare(const FittedResiduals& fitted, double factor_variance);

// How far, in standard deviations, the question's own runs lie from what the other jobs' say; 0
// when either is missing.
double Disagreement(std::span<const RunResidual> runs, const ResidualPrior& prior);

}  // namespace meshwright

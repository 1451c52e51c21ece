#pragma once

#include <span>
#include <vector>

#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The coordinates of a plan that the model's error depends on: base-2 logarithms, so that a
// distance of 1 is a factor of 2. They depend only on a plan's parallel sizes and its micro-batch:
// plans that a search bounds or compares together share one point.
struct PlanPoint {
  double work = 0;  // elements of a layer's input on one rank
  double tensor_parallel = 0;
  double pipeline_parallel = 0;
  bool replicas_differ = false;  // such plans are unlike all others
  auto operator<=>(const PlanPoint&) const = default;
};

// Returns the point of a plan; that of its first stage if its stages have sizes of their own.
PlanPoint PointOf(const ParallelPlan& plan, const EstimatorProblem& problem);

// A measured run compared with the model without history.
struct RunResidual {
  double log_ratio = 0;  // log(measured / modelled)
  PlanPoint point = {};
  int job = 0;      // equal for runs of one model, workload and cluster; 0: those of the question
  int version = 0;  // equal for runs of one version of the framework; 0: that of the question
  int nodes = 0;    // equal for clusters of the same nodes, however many; 0: those of the question
  auto operator<=>(const RunResidual&) const = default;
};

// The assumptions before the first run, as standard deviations of logarithms.
struct ResidualPrior {
  double job = 0;         // a job's own factor
  double plan = 0;        // differences between its plans
  double noise = 0;       // one run
  double noise_rows = 1;  // weight of `noise`, in runs
  // Correlation of the model's errors in two jobs under the same version of the framework; 1 means
  // that they are like one job (docs/cost_model/learning.md).
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
// The same under different versions, on any nodes.
inline constexpr double kOtherVersionSimilarity = 0.4;
double SimilarityToQuestion(const RunResidual& run, const ResidualPrior& prior);

// The lessons of runs, as a Gaussian process over plans of the question's job. Without runs its
// factor is 1.
struct FittedResiduals {
  std::vector<PlanPoint> points = {};     // one for each run
  std::vector<double> similarities = {};  // between their jobs and the question's
  std::vector<double> weights = {};       // inverse covariance times residuals
  std::vector<double> precision = {};     // inverse covariance, row by row
  double job_variance = 0;
  double plan_variance = 0;
  double noise_variance = 0;        // one further run
  double most_plan_log_factor = 0;  // PlanLogFactor is never farther from 0
};

// Fits runs in any order; beyond a fixed number, those farthest from the question are left out.
FittedResiduals FitResiduals(std::span<const RunResidual> runs, const ResidualPrior& prior);

// Return the logarithm of the whole job's factor, and of the factor that a plan adds to it.
double JobLogFactor(const FittedResiduals& fitted);
double PlanLogFactor(const FittedResiduals& fitted, const PlanPoint& point);
// Return the variance of the sum of the two, and its share of the variance before the first run (1:
// nothing was learnt).
double FactorVariance(const FittedResiduals& fitted, const PlanPoint& point);
double OpenShare(const FittedResiduals& fitted, double factor_variance);

// Returns 1 for points of the same sizes, and less the farther two points are apart: the
// correlation of the plans' own factors.
double Likeness(const PlanPoint& a, const PlanPoint& b);

// Returns what the runs explain of a plan's factor, one coordinate for each run: the covariance of
// two plans' factors before the first run, minus the inner product of their coordinates, is the
// covariance after the runs.
std::vector<double> LearntCoordinates(const FittedResiduals& fitted, const PlanPoint& point);

// Returns the distance, in standard deviations, between the question's own runs and the prediction
// of the other jobs' runs; 0 if either is missing.
double Disagreement(std::span<const RunResidual> runs, const ResidualPrior& prior);

}  // namespace meshwright

#pragma once

#include <map>
#include <string>

#include "estimator/learning/calibration.h"
#include "estimator/learning/error_sources.h"
#include "estimator/learning/run_residuals.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"

namespace meshwright {

// The uncertainty of a prediction, as standard deviations of the logarithm.
struct Spread {
  double time_low = 0.1;   // below the prediction
  double time_high = 0.1;  // above it: more slows down a run than a model knows
  double memory = 0.05;
  Provenance provenance = Provenance::kAssumed;  // the weakest among the causes that matter
  // As in Estimate.
  std::map<TimeCause, Provenance> breakdown_provenance = {};
  std::map<std::string, double> uncertainty_ratio_by_source = {};
};

// Returns true if measured runs of this framework back an estimate for this cluster: runs on its
// chips, and on at least a quarter of its devices.
bool WasChecked(const FrameworkProfile& profile, const ClusterSpec& cluster);

// Returns the spread of an estimate, from the share of each cause in the step and the provenance of
// the constants behind it: docs/cost_model/intervals.md. `crossings` and `point` are those
// of the estimate's plan.
Spread SpreadOf(const Estimate& estimate, const ChipSpec& chip, const EstimatorProblem& problem,
                const NodeCrossings& crossings, const Calibration& calibration,
                const PlanPoint& point);

// Returns the variance of the logarithm of a step time that rests on what no run has confirmed:
// that of replicas that differ, while no run of such a plan is known.
double UnconfirmedVariance(const PlanPoint& point, const Calibration& calibration);

// Returns the standard deviation of the logarithm of a plan's memory; it is the same for all plans
// of a question.
double MemorySigma(const EstimatorProblem& problem, const Calibration& calibration);

// Number of standard deviations around the mean that hold 80 % of a normal distribution.
inline constexpr double kCentral80 = 1.2815515655446004;

// Returns the probability that a log-normal quantity with this median stays below the limit.
double ProbabilityBelow(double median, double limit, double log_sigma);

// Returns the largest median, as a share of the limit, that stays below it with this probability.
// 0 < probability < 1.
double LargestMedianRatio(double probability, double log_sigma);

}  // namespace meshwright

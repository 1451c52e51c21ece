#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/learning/error_sources.h"
#include "estimator/learning/run_residuals.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"

namespace meshwright {

// How far the step times of plans of one question may be from their estimates, so that the errors
// which two plans share cancel in their ratio (docs/cost_model/comparisons.md).
struct TimeUncertainty {
  // The share of each ErrorSource in the step, times the standard deviation of its relative error.
  std::array<double, kErrorSourceCount> loads = {};
  // The rest of the error is alike for plans of like sizes.
  PlanPoint point = {};
  double plan_variance = 0;   // variance of that rest for one plan
  double noise_variance = 0;  // variance of one measured run
  // The part of the rest that measured runs explain: the inner product of two plans' coordinates is
  // their covariance.
  std::vector<double> learnt = {};
  // Plans on other chips or under another framework share none of these errors.
  std::string foundation = {};  // the chips and the framework
  double variance = 0;          // variance of the whole estimate
};

// Returns the uncertainty of an estimate from its interval, its breakdown and its plan's point and
// crossings, under the calibration that it was made with.
TimeUncertainty UncertaintyOf(const Estimate& estimate, const PlanPoint& point,
                              const NodeCrossings& crossings, const EstimatorProblem& problem,
                              const Calibration& calibration);

// Returns the standard deviation of the logarithm of the ratio of two plans' measured step times.
double RatioSigma(const TimeUncertainty& a, const TimeUncertainty& b);

// Returns the probability that a step of the first plan is shorter than one of the second if both
// run; 0.5 if the two estimates are equal.
double FasterProbability(Seconds first, const TimeUncertainty& of_first, Seconds second,
                         const TimeUncertainty& of_second);

// The bounds of the central 80 % of the ratio of two plans' measured step times.
struct RatioBounds {
  double low = 1;
  double high = 1;
};

// Returns the bounds of the second plan's step time / the first's if both run.
RatioBounds StepTimeRatio(Seconds first, const TimeUncertainty& of_first, Seconds second,
                          const TimeUncertainty& of_second);

// Returns for each plan of one question the probability that its step is the shortest if all run:
// the share of seeded draws in which it is, so that equal input gives equal shares.
std::vector<double> FastestProbabilities(const std::vector<Seconds>& steps,
                                         const std::vector<TimeUncertainty>& uncertainties);

}  // namespace meshwright

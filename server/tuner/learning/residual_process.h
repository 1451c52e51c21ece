#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "estimator/learning/normal.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Features that make the model's errors on two plans similar: base-2 logarithms of micro-batch,
// tensor, pipeline, context, expert and data parallelism and chunks per stage, the share of the
// layers that are recomputed (a half for selective), and sequence parallelism (0 or 1).
using PlanFeatures = std::array<double, 9>;
PlanFeatures FeaturesOf(const ParallelPlan& plan, int layer_count);

// Returns the likeness of two plans, 1 for equal ones: exp(-distance^2 / 2), with unscaled
// features.
double Likeness(const PlanFeatures& a, const PlanFeatures& b);

// Standard deviations of a residual, the logarithm of measured / modelled, by the plans that share
// it.
struct ResidualSpread {
  double all = 0;         // shared by every plan of the job
  double neighbours = 0;  // shared by similar plans
  double own = 0;         // variance of one plan, including repeats of a run
};

// A Gaussian process over the residuals of a fixed list of plans, learnt from the runs of some of
// them (Rasmussen and Williams 2006, chapter 2.2). Observations are added one at a time as rows of
// the Cholesky factor, so that adding one costs O(n x observations) for n plans. The given spreads
// are widened if runs were further off than they allow, like those of a Student-t process (Shah et
// al. 2014, "Student-t Processes as Alternatives to Gaussian Processes").
class ResidualProcess {
 public:
  ResidualProcess(std::vector<PlanFeatures> plans, const ResidualSpread& spread);

  // Must be called at most once per plan.
  void Observe(std::size_t plan, double residual);
  [[nodiscard]] Normal At(std::size_t plan) const;
  [[nodiscard]] int observation_count() const { return static_cast<int>(factor_.size()); }

 private:
  [[nodiscard]] double Covariance(std::size_t a, std::size_t b) const;

  std::vector<PlanFeatures> plans_;
  ResidualSpread spread_;
  std::vector<Normal> beliefs_;              // one per plan, with the spreads as given
  double surprise_ = 0;                      // sum of squares of standardised residuals
  std::vector<std::vector<double>> factor_;  // one row per observation, one column per plan
};

}  // namespace meshwright

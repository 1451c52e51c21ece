#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "search_space/spec/plan.h"

namespace meshwright {

// What makes two plans alike in how far the model is off: base-2 logarithms of micro-batch, tensor,
// pipeline, context, expert and data parallelism and chunks a stage, the share of the layers that
// are recomputed (a half for selective), and sequence parallelism (0 or 1).
using PlanFeatures = std::array<double, 9>;
PlanFeatures FeaturesOf(const ParallelPlan& plan, int layer_count);

// Likeness of two plans, 1 for equal ones: exp(-distance^2 / 2), features as they are.
double Likeness(const PlanFeatures& a, const PlanFeatures& b);

// Standard deviations of a residual, the logarithm of measured / modelled, by what shares it.
struct ResidualSpread {
  double all = 0;         // every plan of the job
  double neighbours = 0;  // plans that are alike
  double own = 0;         // one plan; repeats of a run among it
};

struct Normal {
  double mean = 0;
  double variance = 0;
};

// A Gaussian process over the residuals of a fixed list of plans, from the runs of some of them
// (Rasmussen and Williams 2006, chapter 2.2). Observations are added one at a time as rows of the
// Cholesky factor, so that one of n plans costs O(n x observations). The spreads are given, but
// widened where runs were further off than they allow, as those of a Student-t process are (Shah et
// al. 2014, "Student-t Processes as Alternatives to Gaussian Processes").
class ResidualProcess {
 public:
  ResidualProcess(std::vector<PlanFeatures> plans, const ResidualSpread& spread);

  // A plan is observed once.
  void Observe(std::size_t plan, double residual);
  [[nodiscard]] Normal At(std::size_t plan) const;
  [[nodiscard]] int observation_count() const { return static_cast<int>(factor_.size()); }

 private:
  [[nodiscard]] double Covariance(std::size_t a, std::size_t b) const;

  std::vector<PlanFeatures> plans_;
  ResidualSpread spread_;
  std::vector<Normal> beliefs_;              // of each plan, of the spreads as given
  double surprise_ = 0;                      // sum of squares of standardised residuals
  std::vector<std::vector<double>> factor_;  // a row an observation, a column a plan
};

}  // namespace meshwright

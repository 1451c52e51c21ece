#pragma once

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// What no plan of a problem can be below, from counts that use no cost model.
class OutputCheck {
 public:
  // `problem` outlives it.
  explicit OutputCheck(const Problem& problem);

  // Figures that cannot be true become kError, and the reason has the numbers: not finite, not
  // above 0, faster than the chips' nominal peak, less memory than the parameters that a device
  // holds, an interval that does not hold the time, a breakdown that does not add up to it.
  void Apply(const ParallelPlan& plan, PlanFigures& figures) const;

  // Bytes of the parameters that the mean device holds.
  [[nodiscard]] Bytes LeastMemory(const ParallelPlan& plan) const;
  [[nodiscard]] Seconds least_step() const { return least_step_; }

 private:
  [[nodiscard]] std::string WhyImpossible(const ParallelPlan& plan,
                                          const PlanFigures& figures) const;

  const Problem& problem_;
  Seconds least_step_;
  double dense_parameters_ = 0;
  double expert_parameters_ = 0;
  double bytes_per_parameter_ = 2;
};

}  // namespace meshwright

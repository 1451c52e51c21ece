#pragma once

#include <string>

#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Lower bounds for all plans of a problem, from counts that need no cost model.
class OutputCheck {
 public:
  explicit OutputCheck(const Problem& problem);

  // Turns impossible figures into kError with the numbers in the reason: figures that are not
  // finite or not above 0, a time below the one at the chips' nominal peak, less memory than the
  // parameters that a device holds, an interval without the time in it, a breakdown that does not
  // add up to the time.
  void Apply(const ParallelPlan& plan, PlanFigures& figures) const;

  // Returns the bytes of the parameters that the mean device holds.
  [[nodiscard]] Bytes LeastMemory(const ParallelPlan& plan) const;
  [[nodiscard]] Seconds least_step() const { return least_step_; }

 private:
  [[nodiscard]] std::string WhyImpossible(const ParallelPlan& plan,
                                          const PlanFigures& figures) const;

  Seconds least_step_;
  double dense_parameters_ = 0;
  double expert_parameters_ = 0;
  double bytes_per_parameter_ = 2;
};

}  // namespace meshwright

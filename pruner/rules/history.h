#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The rule `history`: what failed when it was run. A run that was out of memory rules out the plans
// of its modelled size and above (AnalyticModel, by Calibration::out_of_memory); every run of the
// question's own job that failed rules out its own plan.

// The second part. A plan that was written differently is found too.
class FailedPlans {
 public:
  FailedPlans(const Calibration& calibration, const EstimatorProblem& problem);

  // The run that failed with this very plan.
  [[nodiscard]] const FailedRun* Find(const ParallelPlan& plan) const;
  // Whether one of them may differ from the plan in recomputation alone.
  [[nodiscard]] bool HaveOneLike(const ParallelPlan& plan) const;

 private:
  [[nodiscard]] ParallelPlan Written(ParallelPlan plan) const;

  EstimatorProblem problem_;
  std::vector<FailedRun> runs_;  // with their plans as Written
};

// Of the recomputation choices below a prefix whose other dimensions are set those that do not fit
// the device, whatever ran out of memory before.
std::int64_t CountOversized(AnalyticModel& model, const SearchSpace& space,
                            const ParallelPlan& prefix);

// "ran out of memory", "crashed", ... of an outcome that is a failure.
std::string_view FailureWords(Outcome outcome);

// "tp2.sp1... of this job", "tp2.sp1... of model-name on 8 devices": a run as answers name it.
std::string NameOf(const FailedRun& run);

// Why the history rules out a plan, with the numbers and the run that it leans on: "rule history:
// ..."; nothing when it does not.
std::optional<std::string> WhyRuledOut(const ParallelPlan& plan, const Calibration& calibration,
                                       const EstimatorProblem& problem);

}  // namespace meshwright

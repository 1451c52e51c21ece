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

// The rule `history`: rejects plans because of runs that failed. A run that ran out of memory rules
// out all plans of at least its modelled size (AnalyticModel, by Calibration::out_of_memory). A run
// of the question's own job that failed for any reason rules out its own plan.

// The runs of the second kind. They are found even if the plan is written differently.
class FailedPlans {
 public:
  FailedPlans(const Calibration& calibration, const EstimatorProblem& problem);

  // Returns the run that failed with exactly this plan, or null.
  [[nodiscard]] const FailedRun* Find(const ParallelPlan& plan) const;
  // Returns true if one of the failed plans may differ from this plan only in recomputation.
  [[nodiscard]] bool HaveOneLike(const ParallelPlan& plan) const;

 private:
  [[nodiscard]] ParallelPlan Written(ParallelPlan plan) const;

  EstimatorProblem problem_;
  std::vector<FailedRun> runs_;  // with their plans as returned by Written
};

// Counts the recomputation choices below a prefix (whose other dimensions are set) that do not fit
// the device, regardless of earlier runs that ran out of memory.
std::int64_t CountOversized(AnalyticModel& model, const SearchSpace& space,
                            const ParallelPlan& prefix);

// Returns words for an outcome that is a failure: "ran out of memory", "crashed", ...
std::string_view FailureWords(Outcome outcome);

// Returns the name of a run in answers: "tp2.sp1... of this job", "tp2.sp1... of model-name on 8
// devices".
std::string NameOf(const FailedRun& run);

// Returns the reason for which the history rules out a plan, with the numbers and the run that it
// relies on: "rule history: ...". Returns nullopt if the history does not rule it out.
std::optional<std::string> WhyRuledOut(const ParallelPlan& plan, const Calibration& calibration,
                                       const EstimatorProblem& problem);

}  // namespace meshwright

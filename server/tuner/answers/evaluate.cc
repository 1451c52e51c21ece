#include "server/tuner/answers/evaluate.h"

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {

absl::StatusOr<CalibratedEstimate> EvaluatePlan(const ResolvedCase& asked, Calibrator& calibrator) {
  const Problem& problem = *asked.problem;
  // A plan for one pool of several is compared with the runs on that pool's chips.
  const bool is_for_one_pool = !asked.plan.plan.pools.empty();
  const absl::StatusOr<LearntCalibration>& learnt =
      calibrator.For(asked.question, is_for_one_pool ? problem : *asked.stated);
  RETURN_IF_ERROR(learnt.status());
  const Calibration& calibration = learnt->calibration;
  AnalyticModel model(ToEstimatorProblem(problem), calibration);
  RankedPlan ranked = RankPlan(asked.plan.plan, problem, model);
  Estimate& estimate = ranked.estimate;
  estimate.applied_defaults = problem.applied_defaults;
  const std::vector<AppliedDefault>& applied = asked.plan.applied_defaults;
  estimate.applied_defaults.insert(estimate.applied_defaults.end(), applied.begin(), applied.end());
  const std::vector<std::string> warnings = WarningsOf(problem, calibration);
  estimate.warnings.insert(estimate.warnings.begin(), warnings.begin(), warnings.end());
  TimeUncertainty uncertainty = model.UncertaintyOf(ranked.plan, estimate);
  return CalibratedEstimate{.estimate = std::move(estimate),
                            .uncertainty = std::move(uncertainty),
                            .calibration = learnt->report};
}

}  // namespace meshwright

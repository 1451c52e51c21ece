#include "server/tuner/answers/evaluate.h"

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {

absl::StatusOr<Estimate> EvaluatePlan(const EvaluateRequest& request, const Knowledge& knowledge,
                                      const std::vector<HistoryRow>& history) {
  Calibrator calibrator(history, knowledge);
  ASSIGN_OR_RETURN(CalibratedEstimate evaluated, EvaluatePlan(request, knowledge, calibrator));
  return std::move(evaluated.estimate);
}

absl::StatusOr<CalibratedEstimate> EvaluatePlan(const EvaluateRequest& request,
                                                const Knowledge& knowledge,
                                                Calibrator& calibrator) {
  ASSIGN_OR_RETURN(const Problem problem, ResolveProblem(request.question, knowledge));
  ASSIGN_OR_RETURN(ResolvedPlan plan, ResolvePlan(request.plan, problem, "plan"));
  const absl::StatusOr<LearntCalibration>& learnt = calibrator.For(request.question, problem);
  RETURN_IF_ERROR(learnt.status());
  const Calibration& calibration = learnt->calibration;
  AnalyticModel model(ViewOf(problem), calibration);
  RankedPlan ranked = RankPlan(std::move(plan.plan), problem, model);
  Estimate& estimate = ranked.estimate;
  estimate.applied_defaults = problem.applied_defaults;
  estimate.applied_defaults.insert(estimate.applied_defaults.end(), plan.applied_defaults.begin(),
                                   plan.applied_defaults.end());
  const std::vector<std::string> warnings = WarningsOf(problem, calibration);
  estimate.warnings.insert(estimate.warnings.begin(), warnings.begin(), warnings.end());
  return CalibratedEstimate{.estimate = std::move(estimate), .calibration = learnt->report};
}

}  // namespace meshwright

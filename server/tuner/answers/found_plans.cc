#include "server/tuner/answers/found_plans.h"

#include <string>

#include "search_space/base/status.h"
#include "server/tuner/question/checker.h"

namespace meshwright {

std::vector<RankedPlan*> PlansOf(StudyResult& result) {
  std::vector<RankedPlan*> plans;
  for (RankedPlan& plan : result.plans) plans.push_back(&plan);
  if (result.model_optimum.has_value()) plans.push_back(&*result.model_optimum);
  if (result.baseline.has_value()) plans.push_back(&*result.baseline);
  return plans;
}

absl::Status CheckFound(const RankedPlan& found, const Problem& problem) {
  const std::vector<FieldViolation> illegal = CheckPlan(found.plan, problem, "plan");
  if (!illegal.empty()) {
    return absl::InternalError("checker: " + std::string(InvalidFields(illegal).message()));
  }
  return CheckEstimate(found.plan, found.estimate, problem);
}

}  // namespace meshwright

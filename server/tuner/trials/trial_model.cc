#include "server/tuner/trials/trial_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "estimator/learning/interval.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/requested_model.h"

namespace meshwright {
namespace {

// Returns the error that the model has no time for any of the plans.
absl::Status NoTimes(const CostModelRequest& asked, std::span<RankedPlan* const> plans) {
  return WithReason(absl::FailedPreconditionError(fmt::format(
                        "cost model {} estimated none of {} candidates; the first: {}", asked.name,
                        plans.size(), plans.front()->estimate.cost_model->reason)),
                    "COST_MODEL_NO_ESTIMATE");
}

}  // namespace

absl::Status EstimateByAskedModel(const StudyRequest& request, const Problem& problem,
                                  const StudyControl& control, std::span<RankedPlan* const> plans,
                                  std::vector<std::string>& warnings) {
  if (!request.cost_model.has_value() || plans.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(RequestedModel asked, OpenRequestedModel(request.cost_model, problem,
                                                            control.open_model, control.cancel));
  RETURN_IF_ERROR(ApplyModel(asked, problem, {}, plans, control.cancel));
  if (asked.model == nullptr) return absl::OkStatus();
  const std::vector<std::string>& own = asked.model->warnings();
  warnings.insert(warnings.end(), own.begin(), own.end());
  const auto missed = std::ranges::count_if(
      plans, [](const RankedPlan* plan) { return !IsByVendor(plan->estimate); });
  if (missed == 0) return absl::OkStatus();
  if (missed == std::ssize(plans)) {
    RETURN_IF_ERROR(FallBack(*request.cost_model, NoTimes(*request.cost_model, plans), asked));
    return ApplyModel(asked, problem, {}, plans);
  }
  warnings.push_back(fmt::format(
      "cost model {}: {} of {} candidates got no estimate: their times are the built-in model's",
      request.cost_model->name, missed, plans.size()));
  return absl::OkStatus();
}

bool IsByVendor(const Estimate& estimate) {
  return estimate.cost_model.has_value() && !estimate.cost_model->is_fallback;
}

RankedPlan AtExpectation(RankedPlan known, const Estimate& vendors, const Expectation& expected) {
  Estimate& estimate = known.estimate;
  const double ratio = expected.step_time / vendors.step_time;
  const double spread = std::exp(kCentral80 * expected.log_sigma);
  estimate.step_time = expected.step_time;
  estimate.step_time_low = expected.step_time / spread;
  estimate.step_time_high = expected.step_time * spread;
  estimate.tokens_per_second_per_device = vendors.tokens_per_second_per_device / ratio;
  estimate.model_flops_utilization = vendors.model_flops_utilization / ratio;
  estimate.breakdown = vendors.breakdown;
  for (Seconds& part : estimate.breakdown) part *= ratio;
  estimate.provenance = vendors.provenance;
  estimate.breakdown_provenance = vendors.breakdown_provenance;
  estimate.uncertainty_ratio_by_source.clear();
  estimate.cost_model = vendors.cost_model;
  estimate.warnings = vendors.warnings;
  return known;
}

}  // namespace meshwright

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "search_space/spec/estimate.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/model_search.h"

namespace meshwright {

// The vendor's model that a question asks for, or its fallback.
struct RequestedModel {
  std::unique_ptr<PlanModel> model = {};  // null: the built-in model answers
  // The model that the built-in one replaces, because it could not be asked or estimated no plan.
  std::optional<CostModelSource> fallback = {};
};

// Opens the model that the request names. Returns FAILED_PRECONDITION, NO_COST_MODELS, if there is
// no folder of models; CANCELLED; or the model's own error, unless the request allows the built-in
// model instead.
absl::StatusOr<RequestedModel> OpenRequestedModel(const std::optional<CostModelRequest>& asked,
                                                  const Problem& problem, const OpenPlanModel& open,
                                                  const std::stop_token& cancel);

// Switches to the built-in model if the request allows it; returns `why` otherwise.
absl::Status FallBack(const CostModelRequest& asked, const absl::Status& why,
                      RequestedModel& model);

// Replaces the estimate's time, interval, breakdown and everything derived from them by the model's
// figures, and sets the verdict to kOk. Memory stays the built-in model's.
void ApplyFigures(const PlanFigures& figures, const ModelVersion& version, Estimate& estimate);

// Does the same for the plans of an answer. The model is asked about them once more for their
// breakdowns; if it cannot be asked, the times come from `known`. Plans under a fallback are
// marked. Returns CANCELLED if cancelled.
absl::Status ApplyModel(RequestedModel& asked, const Problem& problem, const ModelFound& known,
                        std::span<RankedPlan* const> plans, const std::stop_token& cancel = {});

// Returns the warnings about plans that the model did not estimate, and about the model's own
// bounds if the answer relies on them.
std::vector<std::string> WarningsOf(const ModelFound& found, const ModelVersion& version);

// Returns why a search has no plan if the model's answers are the cause. FAILED_PRECONDITION,
// COST_MODEL_NO_ESTIMATE: it failed on plans or supports none. RESOURCE_EXHAUSTED,
// EVALUATION_LIMIT: none of the plans that it was asked about fits by its estimate. CANCELLED and
// DEADLINE_EXCEEDED include what it had answered until then. Returns OK if there is a plan, if the
// cause is another one, or if nothing fits by its estimate and it was asked about every plan.
absl::Status WhyNothing(const ModelFound& searched, const ModelVersion& version);

// Returns FAILED_PRECONDITION, NO_FEASIBLE_PLAN: no plan fits by the model's memory estimate.
absl::Status NothingFits(const ModelFound& searched, const ModelVersion& version);

// Step times of `evaluate` cases by a vendor's model. Keeps the last question's model open, since
// cases of one question mostly come together. For one thread.
class CaseModel {
 public:
  CaseModel(std::optional<CostModelRequest> asked, OpenPlanModel open)
      : asked_(std::move(asked)), open_(std::move(open)) {}

  // Returns FAILED_PRECONDITION, COST_MODEL_NO_ESTIMATE, with the reason if the model does not
  // estimate this plan.
  absl::Status Apply(const ResolvedCase& asked, Estimate& estimate);

 private:
  absl::Status Open(const ResolvedCase& asked);

  const std::optional<CostModelRequest> asked_;
  const OpenPlanModel open_;
  std::optional<Question> question_;
  std::shared_ptr<const Problem> problem_;
  RequestedModel model_;
};

}  // namespace meshwright

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "search_space/spec/estimate.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/model_search.h"

namespace meshwright {

// The vendor's model that a question asks for, or what stands in for it.
struct AskedModel {
  std::unique_ptr<PlanModel> model = {};  // none: the built-in model answers
  // Because this one could not be asked, or estimated nothing.
  std::optional<CostModelSource> fallback = {};
};

// Opens what the request names. FAILED_PRECONDITION, NO_COST_MODELS: there is no folder of models;
// what the model fails with, unless the request allows the built-in model instead. CANCELLED.
absl::StatusOr<AskedModel> OpenAskedModel(const std::optional<CostModelRequest>& asked,
                                          const Problem& problem, const OpenPlanModel& open,
                                          const std::stop_token& cancel);

// From then on the built-in model answers, if the request allows it; else `why`.
absl::Status FallBack(const CostModelRequest& asked, const absl::Status& why, AskedModel& model);

// Makes the model's figures the estimate's: time, interval, breakdown, and what follows from them.
// Memory stays the built-in model's. The verdict is kOk.
void ApplyFigures(const PlanFigures& figures, const ModelVersion& version, Estimate& estimate);

// The same for plans of an answer, which the model is asked about once more for their breakdowns;
// where it cannot be, `known` has the times. Under a fallback they are marked. CANCELLED.
absl::Status ApplyModel(AskedModel& asked, const Problem& problem, const ModelFound& known,
                        std::span<RankedPlan* const> plans, const std::stop_token& cancel = {});

// What an answer says of the plans that the model did not estimate, and of bounds of the model's
// own that it leans on.
std::vector<std::string> WarningsOf(const ModelFound& found, const ModelVersion& version);

// Why a search has no plan, where the model's answers are the cause: FAILED_PRECONDITION,
// COST_MODEL_NO_ESTIMATE, where it failed on plans, or supports none; RESOURCE_EXHAUSTED,
// EVALUATION_LIMIT, where nothing asked about fits by its reckoning; CANCELLED and
// DEADLINE_EXCEEDED, with what it said until then. OK where there is a plan, the cause is another,
// or nothing fits by its reckoning and all was asked.
absl::Status WhyNothing(const ModelFound& searched, const ModelVersion& version);

// FAILED_PRECONDITION, NO_FEASIBLE_PLAN: by the model's reckoning of memory nothing fits.
absl::Status NothingFits(const ModelFound& searched, const ModelVersion& version);

// Times of cases of `evaluate` by a vendor's model; keeps the last question's model open, since
// cases of one question mostly come together. One thread; the referents outlive it.
class CaseModel {
 public:
  CaseModel(std::optional<CostModelRequest> asked, const Knowledge& knowledge, OpenPlanModel open)
      : asked_(std::move(asked)), knowledge_(knowledge), open_(std::move(open)) {}

  // FAILED_PRECONDITION, COST_MODEL_NO_ESTIMATE: the model does not estimate this plan, and why.
  absl::Status Apply(const EvaluateRequest& request, Estimate& estimate);

 private:
  absl::Status Open(const Question& question);

  const std::optional<CostModelRequest> asked_;
  const Knowledge& knowledge_;
  const OpenPlanModel open_;
  std::optional<Question> question_;
  std::unique_ptr<Problem> problem_;
  AskedModel model_;
};

}  // namespace meshwright

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/model_search.h"
#include "server/tuner/search/requested_model.h"

namespace meshwright {

// Searches the whole space of `problem`, which need not be the question's own, by the built-in
// model.
SearchFound BestPlansOf(const Problem& problem, const Calibration& calibration,
                        const SearchOptions& options);

// Returns the problem with so little memory that plans which fit there fit into the problem's own
// memory with at least this probability, in [0, 1).
Problem WithSureMemory(Problem problem, double fit_probability, const Calibration& calibration);

// Warning of an answer for which nothing fits without offload.
inline constexpr std::string_view kOnlyWithOffload =
    "no plan fits unless optimizer states are offloaded to the host; other searches leave such "
    "plans out, because their cost rests on an assumed host";

// Returns the question with offload of the optimizer open and that warning, or nullopt if offload
// is open already.
std::optional<PreparedQuestion> WithOffload(const PreparedQuestion& question);

// Returns the plans that a search has found with their full estimates, in their order.
std::vector<RankedPlan> RankPlans(const SearchFound& found, const Problem& problem,
                                  AnalyticModel& model);

// Returns true if plans count that a vendor's model estimated before it could no longer be asked.
enum class PartialAnswer { kCounts, kIsNone };

// Searches the space of `problem` by the vendor's model that is open in `asked`. Returns nullopt if
// the model gave no answer and the request allows the built-in model instead; `asked` then has the
// reason. Else the model's error, or why its answers leave no plan (WhyNothing).
absl::StatusOr<std::optional<ModelFound>> SearchByRequestedModel(RequestedModel& asked,
                                                                 const PreparedQuestion& question,
                                                                 const Problem& problem,
                                                                 const SearchOptions& options,
                                                                 PartialAnswer partial);

// Calls `run` with the requested model. If its result has a `fallback`, calls it again from the
// start with that, because times of two models are not compared.
template <typename Run>
auto RunByOneModel(const Run& run) {
  auto ran = run(std::optional<CostModelSource>());
  if (!ran.ok() || !ran->fallback.has_value()) return ran;
  const std::optional<CostModelSource> fallback = ran->fallback;
  return run(fallback);
}

}  // namespace meshwright

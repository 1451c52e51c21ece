#include "server/tuner/search/question_search.h"

#include <utility>

#include "estimator/learning/calibration.h"
#include "estimator/learning/interval.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

// A plan that fits by the model fits with at least this probability.
constexpr double kFits = 0.5;

}  // namespace

SearchFound BestPlansOf(const Problem& problem, const Calibration& calibration,
                        const SearchOptions& options) {
  return SearchExhaustively(SpaceOf(problem), ToEstimatorProblem(problem), calibration, options);
}

Problem WithSureMemory(Problem problem, double fit_probability, const Calibration& calibration) {
  if (fit_probability <= kFits) return problem;
  const double ratio =
      LargestMedianRatio(fit_probability, MemorySigma(ToEstimatorProblem(problem), calibration));
  for (NodePool& pool : problem.cluster.pools) {
    pool.memory_capacity = Scale(pool.memory_capacity, ratio);
  }
  return problem;
}

std::optional<PreparedQuestion> WithOffload(const PreparedQuestion& question) {
  PreparedQuestion open = question;
  if (!OpenOffload(open.problem)) return std::nullopt;
  open.problem.warnings.emplace_back(kOnlyWithOffload);
  return open;
}

std::vector<RankedPlan> RankPlans(const SearchFound& found, const Problem& problem,
                                  AnalyticModel& model) {
  std::vector<RankedPlan> plans;
  plans.reserve(found.best.size());
  for (const RecomputeChoice& choice : found.best) {
    plans.push_back(RankPlan(choice.plan, problem, model));
  }
  return plans;
}

absl::StatusOr<std::optional<ModelFound>> SearchByRequestedModel(RequestedModel& asked,
                                                                 const PreparedQuestion& question,
                                                                 const Problem& problem,
                                                                 const SearchOptions& options,
                                                                 PartialAnswer partial) {
  const StudyRequest& request = question.request;
  ModelFound found = SearchByModel(problem, question.learnt.calibration, *asked.model, options,
                                   request.evaluation_limit.value_or(kDefaultModelLimit));
  const absl::Status why =
      found.failure.ok() ? WhyNothing(found, asked.model->version()) : found.failure;
  const bool counts = partial == PartialAnswer::kCounts && !found.found.best.empty();
  if (why.ok() || counts) return found;
  if (found.failure.ok() && Reason(why) != "COST_MODEL_NO_ESTIMATE") return why;
  RETURN_IF_ERROR(FallBack(*request.cost_model, why, asked));
  return std::nullopt;
}

}  // namespace meshwright

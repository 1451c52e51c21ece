#include "server/tuner/answers/run_study.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>

#include "estimator/layer/layer_split.h"
#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "pruner/pruner.h"
#include "pruner/rules/history.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/status.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/pareto_front.h"
#include "server/tuner/answers/precision_choice.h"
#include "server/tuner/export/export.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/joined_history.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/search/asked_model.h"
#include "server/tuner/search/baseline.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/infeasible.h"
#include "server/tuner/search/model_search.h"
#include "server/tuner/search/search_by_asking.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/search/strategies.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

// Of a search that ended before it had tried all plans.
absl::Status NothingYet(StopCause cause, const SearchSummary& summary) {
  const std::string seen = fmt::format("after {} of {} plans nothing fits yet",
                                       summary.evaluated_count, summary.space_count);
  switch (cause) {
    case StopCause::kCancelled:
      return absl::CancelledError("cancelled; " + seen);
    case StopCause::kDeadline:
      return absl::DeadlineExceededError("deadline reached; " + seen);
    case StopCause::kEvaluationLimit:
    case StopCause::kFinished:
      break;
  }
  return WithReason(absl::ResourceExhaustedError("evaluation limit reached; " + seen),
                    "EVALUATION_LIMIT");
}

// The default strategy needs not ask.
SearchFound Search(const StudyRequest& request, const Problem& problem,
                   const Calibration& calibration, const SearchOptions& options) {
  const SearchSpace space = SpaceOf(problem);
  if (request.strategy == kExhaustive) {
    return SearchExhaustively(space, ViewOf(problem), calibration, options);
  }
  const std::unique_ptr<SearchStrategy> strategy = MakeStrategy(
      request.strategy, {.space = space, .problem = ViewOf(problem), .calibration = calibration});
  AnalyticModel model(ViewOf(problem), calibration);
  return SearchByAsking(*strategy, model, space, options,
                        request.evaluation_limit.value_or(kDefaultEvaluationLimit));
}

void NoteCut(const StudyRequest& request, const Problem& problem, const Calibration& calibration,
             StudyResult& result) {
  if (result.search.complete) return;
  const Seconds floor = FloorOfStep(problem, calibration);
  result.search.least_time = std::max(result.search.least_time.value_or(floor), floor);
  result.search.optimality_gap =
      std::max(0.0, result.plans.front().estimate.step_time / *result.search.least_time - 1);
  const StopCause cause = result.search.stop_cause;
  if (cause == StopCause::kDeadline || cause == StopCause::kCancelled) {
    result.warnings.push_back("the search was cut short; the plans are the best seen so far");
    return;
  }
  result.warnings.push_back(
      fmt::format("strategy {} proves nothing: the plans are the best of {} that it tried",
                  request.strategy, result.search.evaluated_count));
}

// What the rule `history` left out, and by which runs.
void NoteHistory(const StudyRequest& request, const Calibration& calibration, StudyResult& result) {
  const auto count = std::ranges::find(result.search.pruned_count_by_rule, kHistoryRule,
                                       [](const auto& rule) { return rule.first; });
  // Only where the rule of memory is on is it told apart what the history alone left out.
  const bool is_counted =
      std::ranges::find(request.disabled_rules, kMemoryRule) == request.disabled_rules.end();
  const bool pruned =
      !is_counted || (count != result.search.pruned_count_by_rule.end() && count->second > 0);
  if (calibration.out_of_memory.has_value() && pruned) {
    const FailedRun& run = *calibration.out_of_memory;
    result.warnings.push_back(
        fmt::format("rule {}: plans that fit by the model alone were left out where they are "
                    "modelled at {:.2f} GiB and more without history: {} ran out of memory at that",
                    kHistoryRule, run.reserved_memory / GiB(1), NameOf(run)));
  }
  for (const FailedRun& run : calibration.failed) {
    if (run.outcome == Outcome::kOom) continue;  // named by its size, or contradicted
    result.warnings.push_back(fmt::format("rule {}: left out: {} {}", kHistoryRule, NameOf(run),
                                          FailureWords(run.outcome)));
  }
}

// A run of this very job may have been faster than what is expected of any plan.
void NoteBestRun(const StudyRequest& request, const Problem& problem, const Knowledge& knowledge,
                 StudyResult& result) {
  std::optional<std::pair<Seconds, ParallelPlan>> best;
  for (const HistoryRow& row : request.history) {
    if (row.outcome != Outcome::kOk || !row.step_time.has_value()) continue;
    const auto own = ResolveProblem(row.question, knowledge);
    if (!own.ok() || !IsSameJob(*own, problem)) continue;
    const auto plan = ResolvePlan(row.plan, problem, "plan");
    if (!plan.ok()) continue;  // Calibrate has said so
    const std::pair run(*row.step_time, plan->plan);
    if (!best.has_value() || run < *best) best = run;
  }
  const RankedPlan& first = result.plans.front();
  if (!best.has_value() || best->first >= first.estimate.step_time || best->second == first.plan) {
    return;
  }
  result.warnings.push_back(fmt::format(
      "{} ran this job in {:.4g} s, less than the {:.4g} s that are expected of the first plan",
      MakePlanKey(best->second).text, best->first.count(), first.estimate.step_time.count()));
}

// The search by the vendor's model, or by the built-in one where that cannot be asked or estimates
// nothing.
absl::StatusOr<ModelFound> SearchBy(AskedModel& asked, const StudyRequest& request,
                                    const Problem& problem, const Calibration& calibration,
                                    const SearchOptions& options) {
  if (asked.model != nullptr) {
    ModelFound found = SearchByModel(problem, calibration, *asked.model, options,
                                     request.evaluation_limit.value_or(kDefaultModelLimit));
    const absl::Status why =
        found.failure.ok() ? WhyNothing(found, asked.model->version()) : found.failure;
    if (why.ok() || !found.found.best.empty()) return found;
    if (found.failure.ok() && Reason(why) != "COST_MODEL_NO_ESTIMATE") return why;
    RETURN_IF_ERROR(FallBack(*request.cost_model, why, asked));
  }
  return ModelFound{.found = Search(request, problem, calibration, options)};
}

// A search by a vendor's model that was cut or misled; no bound of the built-in one holds for it.
void NoteModelCut(const ModelFound& found, const Problem& problem, const ModelVersion& version,
                  StudyResult& result) {
  for (std::string& warning : WarningsOf(found, version)) {
    result.warnings.push_back(std::move(warning));
  }
  if (result.search.complete) return;
  result.search.least_time = LeastStep(problem);
  result.search.optimality_gap =
      std::max(0.0, result.plans.front().estimate.step_time / *result.search.least_time - 1);
  const bool was_cut = result.search.stop_cause != StopCause::kFinished || !found.failure.ok();
  if (!was_cut) return;  // misled by bounds: WarningsOf has said so
  result.warnings.emplace_back("the search was cut short; the plans are the best seen so far");
}

std::vector<RankedPlan*> PlansOf(StudyResult& result) {
  std::vector<RankedPlan*> plans;
  for (RankedPlan& plan : result.plans) plans.push_back(&plan);
  if (result.baseline.has_value()) plans.push_back(&*result.baseline);
  return plans;
}

// What an answer is made from beside its options.
struct Asked {
  const StudyRequest& request;
  const Problem& problem;
  const LearntCalibration& learnt;
  const Knowledge& knowledge;
  const StudyControl& control;
};

// The answer of one precision.
absl::StatusOr<StudyAnswer> Answer(const Asked& asked, AskedModel& model_asked,
                                   const SearchOptions& options) {
  const auto& [request, problem, learnt, knowledge, control] = asked;
  const Calibration& calibration = learnt.calibration;
  AnalyticModel model(ViewOf(problem), calibration);
  StudyResult result;
  result.calibration = learnt.report;
  result.applied_defaults = problem.applied_defaults;
  result.warnings = WarningsOf(problem, calibration);
  ASSIGN_OR_RETURN(result.baseline, BaselineOf(request, problem, model, result.applied_defaults));

  ASSIGN_OR_RETURN(const ModelFound searched,
                   SearchBy(model_asked, request, problem, calibration, options));
  const SearchFound& found = searched.found;
  const bool is_vendors = model_asked.model != nullptr;
  result.search = found.summary;
  if (found.best.empty()) {
    if (is_vendors && !searched.unanswered.empty()) {
      return NothingFits(searched, model_asked.model->version());
    }
    // A strategy without proof that has no further plan has tried them all.
    const bool is_cut = found.summary.stop_cause != StopCause::kFinished;
    if (is_cut) return NothingYet(found.summary.stop_cause, found.summary);
    return ExplainInfeasible(problem, calibration, found, options);
  }
  for (const RecomputeChoice& choice : found.best) {
    result.plans.push_back(RankPlan(choice.plan, problem, model));
  }
  RETURN_IF_ERROR(ApplyModel(model_asked, problem, searched, PlansOf(result)));
  const RankedPlan& winner = result.plans.front();
  const std::vector<FieldViolation> illegal = CheckPlan(winner.plan, problem, "plan");
  if (!illegal.empty()) {
    return absl::InternalError("checker: " + std::string(InvalidFields(illegal).message()));
  }
  RETURN_IF_ERROR(CheckEstimate(winner.plan, winner.estimate, problem));
  if (is_vendors) {
    const std::vector<std::string>& warnings = model_asked.model->warnings();
    result.warnings.insert(result.warnings.end(), warnings.begin(), warnings.end());
    NoteModelCut(searched, problem, model_asked.model->version(), result);
  } else {
    NoteCut(request, problem, calibration, result);
  }
  NoteHistory(request, calibration, result);
  NoteBestRun(request, problem, knowledge, result);
  if (request.pareto) {
    AddParetoFront(problem,
                   {.request = request,
                    .calibration = calibration,
                    .options = options,
                    .control = control,
                    .fallback = model_asked.fallback},
                   result);
  }
  AddExports(problem, result);
  return result;
}

// The answers of all precisions.
struct Answers {
  std::vector<PrecisionAnswer> by_precision = {};
  // The vendor's model did not answer for the last of them, which the request allows.
  std::optional<CostModelSource> fallback = {};
};

// By the model that the request names; ends with the first that it cannot be asked about. Under a
// `fallback` by the built-in model.
absl::StatusOr<Answers> AnswersBy(const StudyRequest& request, const Knowledge& knowledge,
                                  const StudyControl& control, const SearchOptions& options,
                                  const std::optional<CostModelSource>& fallback) {
  ASSIGN_OR_RETURN(const std::vector<PrecisionChoice> choices, PrecisionChoices(request));
  Answers answers;
  for (const PrecisionChoice& choice : choices) {
    ASSIGN_OR_RETURN(const Problem problem, SearchableProblem(choice.request, knowledge));
    ASSIGN_OR_RETURN(const StudyRequest asked,
                     WithStoreHistory(choice.request, problem, knowledge, control.history));
    ASSIGN_OR_RETURN(const LearntCalibration learnt, LearnCalibration(asked, problem, knowledge));
    AskedModel model = {.fallback = fallback};
    if (!fallback.has_value()) {
      ASSIGN_OR_RETURN(
          model, OpenAskedModel(asked.cost_model, problem, control.open_model, control.cancel));
    }
    const Seconds floor =
        model.model == nullptr ? FloorOfStep(problem, learnt.calibration) : LeastStep(problem);
    const Asked about = {.request = asked,
                         .problem = problem,
                         .learnt = learnt,
                         .knowledge = knowledge,
                         .control = control};
    answers.by_precision.push_back(
        {.precision = choice.precision, .floor = floor, .answer = Answer(about, model, options)});
    answers.fallback = model.fallback;
    if (answers.fallback.has_value() && !fallback.has_value()) return answers;
  }
  return answers;
}

}  // namespace

absl::StatusOr<StudyAnswer> RunStudy(const StudyRequest& request, const Knowledge& knowledge,
                                     const StudyControl& control) {
  if (request.pareto) RETURN_IF_ERROR(RequireExhaustive(request, "a Pareto front"));
  if (request.cost_model) RETURN_IF_ERROR(RequireExhaustive(request, "a vendor's model"));
  const SearchOptions options = SearchOptionsOf(request, control, Clock::now());
  ASSIGN_OR_RETURN(Answers answers, AnswersBy(request, knowledge, control, options, {}));
  // Times of two models are not ranked beside each other.
  const bool is_of_many = answers.by_precision.front().precision.has_value();
  if (answers.fallback.has_value() && is_of_many) {
    ASSIGN_OR_RETURN(answers, AnswersBy(request, knowledge, control, options, answers.fallback));
  }
  absl::StatusOr<StudyAnswer> answer = BestOf(answers.by_precision, options.plan_count);
  if (auto* result = answer.ok() ? std::get_if<StudyResult>(&*answer) : nullptr) {
    NoteBaseline(*result);
  }
  return answer;
}

Seconds RoundedUpSeconds(Seconds wall_time) {
  double step = 10;
  while (step < wall_time.count()) step *= 10;
  return Seconds(step);
}

std::vector<std::string> PruneRuleNames() {
  std::vector<std::string> names;
  for (const PruneRule& rule : PruneRules()) names.emplace_back(rule.name);
  return names;
}

std::vector<std::string> StrategyNames() {
  std::vector<std::string> names;
  for (const StrategyRow& row : Strategies()) names.emplace_back(row.name);
  return names;
}

}  // namespace meshwright

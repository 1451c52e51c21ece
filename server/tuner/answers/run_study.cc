#include "server/tuner/answers/run_study.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <utility>

#include "estimator/layer/layer_split.h"
#include "estimator/learning/calibration.h"
#include "estimator/learning/uncertainty.h"
#include "estimator/model/analytic_model.h"
#include "pruner/pruner.h"
#include "pruner/rules/history.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/answers/found_plans.h"
#include "server/tuner/answers/mixed_study.h"
#include "server/tuner/answers/pareto_front.h"
#include "server/tuner/answers/recommend.h"
#include "server/tuner/answers/switched.h"
#include "server/tuner/answers/variants.h"
#include "server/tuner/export/export.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_run.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/run_cost.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/baseline.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/infeasible.h"
#include "server/tuner/search/model_search.h"
#include "server/tuner/search/question_search.h"
#include "server/tuner/search/requested_model.h"
#include "server/tuner/search/search_by_strategy.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/search/stop_status.h"
#include "server/tuner/search/strategies.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

// Returns the error of a search that ended before it had tried all plans and found none.
absl::Status NothingYet(const SearchSummary& summary) {
  return StopStatus(summary.stop_cause, fmt::format("none of the first {} of {} plans fits",
                                                    summary.evaluated_count, summary.space_count));
}

// Searches the space. The default strategy is called directly, without asking plan by plan.
SearchFound Search(const PreparedQuestion& question, const SearchOptions& options) {
  const auto& [request, problem, baseline, runs, learnt] = question;
  if (request.strategy == kExhaustive) return BestPlansOf(problem, learnt.calibration, options);
  const SearchSpace space = SpaceOf(problem);
  const std::unique_ptr<SearchStrategy> strategy = MakeStrategy(
      request.strategy,
      {.space = space, .problem = ToEstimatorProblem(problem), .calibration = learnt.calibration});
  AnalyticModel model(ToEstimatorProblem(problem), learnt.calibration);
  return SearchByStrategy(*strategy, model, space, options,
                          request.evaluation_limit.value_or(kDefaultEvaluationLimit));
}

// Notes a lower bound of all plans, and how far the first plan may be above the best one.
void NoteLeastTime(Seconds least, StudyResult& result) {
  result.search.least_time = least;
  const Estimate& best = result.model_optimum.value_or(result.plans.front()).estimate;
  result.search.optimality_gap = std::max(0.0, best.step_time / least - 1);
}

void NoteCutShort(StudyResult& result) {
  result.warnings.emplace_back("the search ended early; the plans are the best seen so far");
}

void NoteCut(const StudyRequest& request, const Problem& problem, const Calibration& calibration,
             StudyResult& result) {
  if (result.search.complete) return;
  const Seconds floor = FloorOfStep(problem, calibration);
  NoteLeastTime(std::max(result.search.least_time.value_or(floor), floor), result);
  const StopCause cause = result.search.stop_cause;
  if (cause == StopCause::kDeadline || cause == StopCause::kCancelled) {
    NoteCutShort(result);
    return;
  }
  result.warnings.push_back(
      fmt::format("strategy {} does not prove its answer: the plans are the best of {} that it "
                  "tried",
                  request.strategy, result.search.evaluated_count));
}

// Reports what the rule `history` left out, and because of which runs.
void NoteHistory(const StudyRequest& request, const Calibration& calibration, StudyResult& result) {
  const auto count = std::ranges::find(result.search.pruned_count_by_rule, kHistoryRule,
                                       [](const auto& rule) { return rule.first; });
  // Plans that only the history left out can be counted only if the memory rule is on.
  const bool is_counted = IsRuleOn(kMemoryRule, request.disabled_rules);
  const bool pruned =
      !is_counted || (count != result.search.pruned_count_by_rule.end() && count->second > 0);
  if (calibration.out_of_memory.has_value() && pruned) {
    const FailedRun& run = *calibration.out_of_memory;
    result.warnings.push_back(fmt::format(
        "rule {0}: plans that the model estimates at {1:.2f} GiB or more were left out, "
        "although they fit by the model: {2} ran out of memory at {1:.2f} GiB",
        kHistoryRule, run.reserved_memory / GiB(1), NameOf(run)));
  }
  for (const FailedRun& run : calibration.failed) {
    if (run.outcome == Outcome::kOom) continue;  // already named by its size, or contradicted
    result.warnings.push_back(fmt::format("rule {}: a plan was left out: {} {}", kHistoryRule,
                                          NameOf(run), FailureWords(run.outcome)));
  }
}

// Reports a run of the same job that was faster than the expectation of any plan.
void NoteBestRun(const PreparedQuestion& question, StudyResult& result) {
  std::optional<std::pair<Seconds, ParallelPlan>> best;
  for (const ResolvedRun& run : question.runs) {
    const bool counts = run.is_same_job && !run.is_by_own_facts;
    if (!counts || run.outcome != Outcome::kOk || !run.step_time.has_value()) continue;
    const std::pair timed(*run.step_time, run.plan);
    if (!best.has_value() || timed < *best) best = timed;
  }
  const RankedPlan& first = result.plans.front();
  if (!best.has_value() || best->first >= first.estimate.step_time || best->second == first.plan) {
    return;
  }
  result.warnings.push_back(fmt::format(
      "{} ran this job in {:.4g} s, less than the {:.4g} s expected of the first plan",
      MakePlanKey(best->second).text, best->first.count(), first.estimate.step_time.count()));
}

// Searches by the vendor's model, or by the built-in one if that gives no answer.
absl::StatusOr<ModelFound> SearchBy(RequestedModel& asked, const PreparedQuestion& question,
                                    const SearchOptions& options) {
  if (asked.model != nullptr) {
    ASSIGN_OR_RETURN(
        std::optional<ModelFound> found,
        SearchByRequestedModel(asked, question, question.problem, options, PartialAnswer::kCounts));
    if (found.has_value()) return *std::move(found);
  }
  return ModelFound{.found = Search(question, options)};
}

// Reports that a search by a vendor's model was cut or misled. No bound of the built-in model holds
// for it.
void NoteModelCut(const ModelFound& found, const Problem& problem, const ModelVersion& version,
                  StudyResult& result) {
  for (std::string& warning : WarningsOf(found, version)) {
    result.warnings.push_back(std::move(warning));
  }
  if (result.search.complete) return;
  NoteLeastTime(LeastStep(problem), result);
  const bool was_cut = result.search.stop_cause != StopCause::kFinished || !found.failure.ok();
  if (was_cut) NoteCutShort(result);  // else misled by bounds: WarningsOf has reported it
}

// Says if a search may turn on switches of the framework by itself.
enum class Settings { kOwn, kMayChange };

// Answers a question that leaves no setting open.
absl::StatusOr<StudyAnswer> AnswerVariant(const PreparedQuestion& question,
                                          const StudyControl& control, RequestedModel& asked,
                                          const SearchOptions& options, Settings settings) {
  const auto& [request, problem, baseline, runs, learnt] = question;
  if (problem.cluster.pools.size() > 1) {
    return AnswerMixed(question, options, [&](const PreparedQuestion& alone) {
      return AnswerVariant(alone, control, asked, options, Settings::kOwn);
    });
  }
  SwitchedPlans plans(question, settings == Settings::kMayChange ? SettingsToTurnOn(question)
                                                                 : std::vector<WorkloadSetting>());
  const PreparedQuestion& searched_for = plans.question();
  const Calibration& calibration = learnt.calibration;
  AnalyticModel model(ToEstimatorProblem(problem), calibration);
  StudyResult result;
  result.calibration = learnt.report;
  result.applied_defaults = problem.applied_defaults;
  result.warnings = WarningsOf(problem, calibration);
  const std::optional<Baseline> compared =
      BaselineOf(baseline, problem, model, result.applied_defaults);
  if (compared.has_value()) result.baseline = compared->ranked;

  ASSIGN_OR_RETURN(const ModelFound searched, SearchBy(asked, searched_for, options));
  const SearchFound& found = searched.found;
  const bool is_vendors = asked.model != nullptr;
  result.search = found.summary;
  if (found.best.empty()) {
    if (is_vendors && !searched.unanswered.empty()) {
      return NothingFits(searched, asked.model->version());
    }
    // A strategy without proof that has no further plan has tried all of them.
    const bool is_cut = found.summary.stop_cause != StopCause::kFinished;
    if (is_cut) return NothingYet(found.summary);
    if (const auto open = WithOffload(question)) {
      return AnswerVariant(*open, control, asked, options, settings);
    }
    return ExplainInfeasible(problem, calibration, found, options);
  }
  result.model_optimum = plans.Fastest(found.best.front().plan);
  if (is_vendors) {
    result.plans = RankPlans(found, problem, model);
  } else {
    const SearchFound safe = SafePlans(searched_for, found, options, result.warnings);
    Recommend(question, CandidatesOf(safe, plans), compared, plans, result);
    NoteSureOffload(searched_for, options, result);
  }
  RETURN_IF_ERROR(ApplyModel(asked, problem, searched, PlansOf(result)));
  RETURN_IF_ERROR(CheckFound(*result.model_optimum, searched_for.problem));
  if (is_vendors) {
    const std::vector<std::string>& warnings = asked.model->warnings();
    result.warnings.insert(result.warnings.end(), warnings.begin(), warnings.end());
    NoteModelCut(searched, problem, asked.model->version(), result);
  } else {
    NoteCut(request, problem, calibration, result);
  }
  NoteHistory(request, calibration, result);
  NoteBestRun(question, result);
  if (request.pareto) {
    AddParetoFront(searched_for, options, control, asked.fallback, result);
    for (ParetoPoint& point : result.pareto_front) {
      if (plans.has_switches()) point.plan = plans.Fastest(point.plan.plan);
    }
  }
  AddExports(problem, result);
  if (settings == Settings::kMayChange) plans.Note(result);
  AddRunCosts(request.run, problem, result);
  return result;
}

// The answers of all variants.
struct AnsweredVariants {
  std::vector<VariantAnswer> by_variant = {};
  // Set if the vendor's model gave no answer for the last of several variants and the request
  // allows that.
  std::optional<CostModelSource> fallback = {};
};

// Returns the uncertainties of an answer's plans, if it recommends one of them.
std::vector<TimeUncertainty> UncertaintiesOf(const absl::StatusOr<StudyAnswer>& answer,
                                             const PreparedQuestion& question) {
  const auto* result = answer.ok() ? std::get_if<StudyResult>(&*answer) : nullptr;
  if (result == nullptr || !result->recommendation.has_value()) return {};
  AnalyticModel model(ToEstimatorProblem(question.problem), question.learnt.calibration);
  std::vector<TimeUncertainty> uncertainties;
  for (const RankedPlan& ranked : result->plans) {
    uncertainties.push_back(model.UncertaintyOf(ranked.plan, ranked.estimate));
  }
  return uncertainties;
}

// Answers by the requested model up to the first variant that it gives no answer for, or by the
// built-in model under a `fallback`.
absl::StatusOr<AnsweredVariants> AnswerVariants(const std::vector<PreparedVariant>& variants,
                                                const StudyControl& control,
                                                const SearchOptions& options,
                                                const std::optional<CostModelSource>& fallback) {
  AnsweredVariants answers;
  for (const auto& [question, settings, changed_count] : variants) {
    const Settings may_change = settings.empty() ? Settings::kMayChange : Settings::kOwn;
    RequestedModel model = {.fallback = fallback};
    if (!fallback.has_value()) {
      ASSIGN_OR_RETURN(model, OpenRequestedModel(question.request.cost_model, question.problem,
                                                 control.open_model, control.cancel));
    }
    const Seconds floor = model.model == nullptr
                              ? FloorOfStep(question.problem, question.learnt.calibration)
                              : LeastStep(question.problem);
    answers.by_variant.push_back(
        {.settings = settings,
         .changed_count = changed_count,
         .floor = floor,
         .answer = AnswerVariant(question, control, model, options, may_change)});
    VariantAnswer& added = answers.by_variant.back();
    if (!settings.empty()) added.uncertainties = UncertaintiesOf(added.answer, question);
    if (variants.size() > 1) answers.fallback = model.fallback;
    if (answers.fallback.has_value() && !fallback.has_value()) return answers;
  }
  return answers;
}

absl::StatusOr<StudyAnswer> AnswerByBestVariant(const std::vector<PreparedVariant>& variants,
                                                const StudyControl& control,
                                                const SearchOptions& options) {
  ASSIGN_OR_RETURN(const AnsweredVariants answers,
                   RunByOneModel([&](const std::optional<CostModelSource>& fallback) {
                     return AnswerVariants(variants, control, options, fallback);
                   }));
  absl::StatusOr<StudyAnswer> answer =
      BestOf(answers.by_variant, variants.front().question.request);
  if (auto* result = answer.ok() ? std::get_if<StudyResult>(&*answer) : nullptr) {
    NoteBaseline(*result);
  }
  return answer;
}

// Returns INVALID_ARGUMENT if the answer compares best plans, and the strategy proves none.
absl::Status RequireProofIfCompared(const StudyRequest& request) {
  if (request.pareto) RETURN_IF_ERROR(RequireExhaustive(request, "a Pareto front"));
  if (request.cost_model) RETURN_IF_ERROR(RequireExhaustive(request, "a vendor's model"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StudyAnswer> RunStudy(const ResolvedStudy& study, const Knowledge& knowledge,
                                     const StudyControl& control) {
  RETURN_IF_ERROR(RequireProofIfCompared(study.request));
  const SearchOptions options = SearchOptionsOf(study.request, control, Clock::now());
  ASSIGN_OR_RETURN(const std::vector<PreparedVariant> variants,
                   PrepareVariants(study, knowledge, control.history));
  return AnswerByBestVariant(variants, control, options);
}

absl::StatusOr<StudyAnswer> AnswerQuestion(PreparedQuestion question, const StudyControl& control) {
  RETURN_IF_ERROR(RequireProofIfCompared(question.request));
  const SearchOptions options = SearchOptionsOf(question.request, control, Clock::now());
  std::vector<PreparedVariant> variants(1);
  variants.front().question = std::move(question);
  return AnswerByBestVariant(variants, control, options);
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

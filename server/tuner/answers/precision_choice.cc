#include "server/tuner/answers/precision_choice.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/space/space_request.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/answers/joined_warnings.h"
#include "server/tuner/answers/pareto_front.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

void Add(const SearchSummary& part, SearchSummary& sum) {
  sum.space_count += part.space_count;
  sum.evaluated_count += part.evaluated_count;
  sum.seconds += part.seconds;
  sum.complete = sum.complete && part.complete;
  if (sum.stop_cause == StopCause::kFinished) sum.stop_cause = part.stop_cause;
  sum.pruned_count_by_rule.resize(
      std::max(sum.pruned_count_by_rule.size(), part.pruned_count_by_rule.size()));
  for (std::size_t i = 0; i < part.pruned_count_by_rule.size(); ++i) {
    sum.pruned_count_by_rule[i].first = part.pruned_count_by_rule[i].first;
    sum.pruned_count_by_rule[i].second += part.pruned_count_by_rule[i].second;
  }
}

// Adds the defaults of one precision. If defaults of the same field differ, they name their
// precision.
void AddDefaults(const StudyResult& part, Precision precision, StudyResult& sum) {
  for (AppliedDefault applied : part.applied_defaults) {
    const auto known =
        std::ranges::find(sum.applied_defaults, applied.field, &AppliedDefault::field);
    if (known != sum.applied_defaults.end() && *known == applied) continue;
    applied.source += fmt::format(", with {}", Word(precision));
    sum.applied_defaults.push_back(std::move(applied));
  }
}

void Add(const StudyResult& part, Precision precision, StudyResult& sum) {
  for (RankedPlan plan : part.plans) {
    plan.precision = precision;
    plan.fastest_probability.reset();  // was among the plans of its own precision only
    sum.plans.push_back(std::move(plan));
  }
  const bool is_faster =
      part.model_optimum.has_value() &&
      (!sum.model_optimum.has_value() ||
       part.model_optimum->estimate.step_time < sum.model_optimum->estimate.step_time);
  if (is_faster) {
    sum.model_optimum = part.model_optimum;
    sum.model_optimum->precision = precision;
  }
  for (ParetoPoint point : part.pareto_front) {
    point.plan.precision = precision;
    sum.pareto_front.push_back(std::move(point));
  }
  if (!sum.baseline.has_value() && part.baseline.has_value()) {
    sum.baseline = part.baseline;
    sum.baseline->precision = precision;
  }
  AddDefaults(part, precision, sum);
}

// Returns true if a search ended before it had tried all plans and has none to show.
bool IsCut(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
         Reason(status) == "EVALUATION_LIMIT";
}

// Returns true if nothing fits by a vendor's model; plans of another precision may fit.
bool FitsNothing(const absl::Status& status) { return Reason(status) == kNoFeasiblePlanReason; }

StopCause CauseOf(const absl::Status& status) {
  if (absl::IsCancelled(status)) return StopCause::kCancelled;
  return absl::IsDeadlineExceeded(status) ? StopCause::kDeadline : StopCause::kEvaluationLimit;
}

// The combined answers of all precisions so far.
struct Gathered {
  StudyResult result = {};
  std::vector<NamedWarnings> warnings = {};  // from the precisions that have plans
  std::unique_ptr<Infeasible> nearest = {};
  absl::Status cut = absl::OkStatus();
  std::optional<Seconds> floor = {};  // lower bound for precisions whose search is incomplete
};

void Gather(const PrecisionAnswer& each, Gathered& all) {
  SearchSummary& search = all.result.search;
  bool is_complete = false;
  std::optional<Seconds> least_time;
  if (FitsNothing(each.answer.status())) {
    all.result.warnings.push_back(fmt::format("with {}: {}", Word(*each.precision),
                                              std::string(each.answer.status().message())));
    is_complete = true;
  } else if (!each.answer.ok()) {
    all.cut = each.answer.status();
    search.complete = false;
    search.stop_cause = CauseOf(all.cut);
  } else if (const auto* result = std::get_if<StudyResult>(&*each.answer)) {
    Add(*result, *each.precision, all.result);
    all.warnings.push_back(
        {.name = std::string(Word(*each.precision)), .warnings = result->warnings});
    Add(result->search, search);
    is_complete = result->search.complete;
    least_time = result->search.least_time;
  } else {
    Infeasible infeasible = std::get<Infeasible>(*each.answer);
    Add(infeasible.search, search);
    is_complete = true;
    if (infeasible.nearest) infeasible.nearest->precision = each.precision;
    const bool is_nearer = all.nearest == nullptr || infeasible.missing < all.nearest->missing;
    if (is_nearer) all.nearest = std::make_unique<Infeasible>(std::move(infeasible));
  }
  if (!is_complete) {
    const Seconds floor = least_time.value_or(each.floor);
    all.floor = std::min(all.floor.value_or(floor), floor);
  }
}

std::optional<CalibrationReport> CalibrationOf(Precision precision,
                                               const std::vector<PrecisionAnswer>& answers) {
  const auto own = std::ranges::find(answers, precision, &PrecisionAnswer::precision);
  return std::get<StudyResult>(*own->answer).calibration;
}

// Moves the plan to launch to the front: among the plans that the answers recommend, the fastest of
// those that fit surely enough, or else the fastest.
void PutRecommendedFirst(const std::vector<PrecisionAnswer>& answers, const ChoiceLimits& limits,
                         StudyResult& result) {
  using Key = std::pair<bool, Seconds>;
  std::optional<Key> least;
  for (const PrecisionAnswer& each : answers) {
    const auto* own = each.answer.ok() ? std::get_if<StudyResult>(&*each.answer) : nullptr;
    if (own == nullptr || !own->recommendation.has_value()) continue;
    const RankedPlan& first = own->plans.front();
    const Key key(first.estimate.fit_probability < limits.min_fit_probability,
                  first.estimate.step_time);
    if (least.has_value() && *least <= key) continue;
    least = key;
    result.recommendation = own->recommendation;
    const auto at = std::ranges::find_if(result.plans, [&](const RankedPlan& ranked) {
      return ranked.precision == each.precision && ranked.plan == first.plan;
    });
    std::rotate(result.plans.begin(), at, at + 1);
  }
}

}  // namespace

absl::StatusOr<std::vector<PreparedPrecision>> PreparePrecisions(const ResolvedStudy& study,
                                                                 const Knowledge& knowledge,
                                                                 const HistorySource& source) {
  SpaceOptions options;
  const StudyRequest& request = study.request;
  const auto violations = ApplyDimensions(request.dimensions, "dimensions", options);
  if (!violations.empty()) return InvalidFields(violations);
  std::vector<PreparedPrecision> questions;
  const std::vector<int>& precisions = options.precisions.values;
  if (precisions.empty()) {
    ASSIGN_OR_RETURN(PreparedQuestion question, PrepareSearch(study, knowledge, source));
    questions.push_back({.question = std::move(question)});
    return questions;
  }
  const std::optional<Precision>& stated = request.question.workload.precision;
  if (stated.has_value()) {
    return InvalidFields(
        {{.field = "dimensions",
          .description = fmt::format("precision: the workload states {}; leave one of them out",
                                     Word(*stated))}});
  }
  for (const int value : precisions) {
    StudyRequest own = request;
    const auto precision = static_cast<Precision>(value);
    own.question.workload.precision = precision;
    ASSIGN_OR_RETURN(ResolvedStudy resolved, ResolveStudy(std::move(own), knowledge));
    ASSIGN_OR_RETURN(PreparedQuestion question,
                     PrepareSearch(std::move(resolved), knowledge, source));
    questions.push_back({.question = std::move(question), .precision = precision});
  }
  return questions;
}

absl::StatusOr<StudyAnswer> BestOf(const std::vector<PrecisionAnswer>& answers,
                                   const StudyRequest& request) {
  if (!answers.front().precision.has_value()) return answers.front().answer;
  Gathered all;
  all.result.search.complete = true;
  for (const PrecisionAnswer& each : answers) {
    const absl::Status& status = each.answer.status();
    if (!status.ok() && !IsCut(status) && !FitsNothing(status)) return status;
    Gather(each, all);
  }
  StudyResult& best = all.result;
  if (best.plans.empty()) {
    if (!all.cut.ok()) return all.cut;
    // A vendor's model fits nothing in any precision; each of the warnings says so of one.
    if (all.nearest == nullptr) {
      return WithReason(
          absl::FailedPreconditionError(fmt::format("{}", fmt::join(best.warnings, "; "))),
          kNoFeasiblePlanReason);
    }
    all.nearest->search = best.search;
    return std::move(*all.nearest);
  }
  std::ranges::stable_sort(best.plans, {},
                           [](const RankedPlan& plan) { return plan.estimate.step_time; });
  PutRecommendedFirst(answers, request.choice, best);
  best.calibration = CalibrationOf(*best.plans.front().precision, answers);
  best.pareto_front = FrontOf(std::move(best.pareto_front));
  const auto plan_count = static_cast<std::size_t>(request.plan_count);
  if (best.plans.size() > plan_count) best.plans.resize(plan_count);
  std::ranges::move(JoinedWarnings(all.warnings), std::back_inserter(best.warnings));
  if (all.floor.has_value()) {
    best.search.optimality_gap = std::max(
        0.0, best.model_optimum.value_or(best.plans.front()).estimate.step_time / *all.floor - 1);
  }
  if (!all.cut.ok()) {
    best.warnings.emplace_back("the search ended before every precision had a plan");
  }
  return best;
}

}  // namespace meshwright

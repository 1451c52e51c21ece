#include "server/tuner/answers/variants.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "estimator/learning/uncertainty.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/space/space_request.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/workload.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/answers/joined_notes.h"
#include "server/tuner/answers/pareto_front.h"
#include "server/tuner/choice/choice.h"
#include "server/tuner/choice/verdict.h"
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

// Returns a variant's name: "fp8, gradient_dtype bf16".
std::string NameOf(const std::vector<WorkloadSetting>& settings) {
  std::vector<std::string> words;
  words.reserve(settings.size());
  for (const WorkloadSetting& setting : settings) {
    words.push_back(setting.field == kPrecisionField ? setting.value
                                                     : setting.field + " " + setting.value);
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

void Add(const StudyResult& part, const std::vector<WorkloadSetting>& settings, StudyResult& sum) {
  for (RankedPlan plan : part.plans) {
    plan.settings = settings;
    plan.fastest_probability.reset();  // was among the plans of its own variant only
    sum.plans.push_back(std::move(plan));
  }
  const bool is_faster =
      part.model_optimum.has_value() &&
      (!sum.model_optimum.has_value() ||
       part.model_optimum->estimate.step_time < sum.model_optimum->estimate.step_time);
  if (is_faster) {
    sum.model_optimum = part.model_optimum;
    sum.model_optimum->settings = settings;
  }
  for (ParetoPoint point : part.pareto_front) {
    point.plan.settings = settings;
    sum.pareto_front.push_back(std::move(point));
  }
  if (!sum.baseline.has_value() && part.baseline.has_value()) {
    sum.baseline = part.baseline;
    sum.baseline->settings = settings;
  }
}

// Returns true if a search ended before it had tried all plans and has none to show.
bool IsCut(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsDeadlineExceeded(status) ||
         Reason(status) == "EVALUATION_LIMIT";
}

// Returns true if nothing fits by a vendor's model; plans of another variant may fit.
bool FitsNothing(const absl::Status& status) { return Reason(status) == kNoFeasiblePlanReason; }

StopCause CauseOf(const absl::Status& status) {
  if (absl::IsCancelled(status)) return StopCause::kCancelled;
  return absl::IsDeadlineExceeded(status) ? StopCause::kDeadline : StopCause::kEvaluationLimit;
}

// The combined answers of all variants so far.
struct Gathered {
  StudyResult result = {};
  std::vector<NamedWarnings> warnings = {};  // from the variants that have plans
  std::vector<NamedDefaults> defaults = {};  // likewise
  std::unique_ptr<Infeasible> nearest = {};
  absl::Status cut = absl::OkStatus();
  std::optional<Seconds> floor = {};  // lower bound for variants whose search is incomplete
};

void Gather(const VariantAnswer& each, Gathered& all) {
  SearchSummary& search = all.result.search;
  bool is_complete = false;
  std::optional<Seconds> least_time;
  if (FitsNothing(each.answer.status())) {
    all.result.warnings.push_back(fmt::format("with {}: {}", NameOf(each.settings),
                                              std::string(each.answer.status().message())));
    is_complete = true;
  } else if (!each.answer.ok()) {
    all.cut = each.answer.status();
    search.complete = false;
    search.stop_cause = CauseOf(all.cut);
  } else if (const auto* result = std::get_if<StudyResult>(&*each.answer)) {
    Add(*result, each.settings, all.result);
    all.warnings.push_back({.name = NameOf(each.settings), .warnings = result->warnings});
    all.defaults.push_back({.name = NameOf(each.settings), .defaults = result->applied_defaults});
    Add(result->search, search);
    is_complete = result->search.complete;
    least_time = result->search.least_time;
  } else {
    Infeasible infeasible = std::get<Infeasible>(*each.answer);
    Add(infeasible.search, search);
    is_complete = true;
    if (infeasible.nearest) infeasible.nearest->settings = each.settings;
    const bool is_nearer = all.nearest == nullptr || infeasible.missing < all.nearest->missing;
    if (is_nearer) all.nearest = std::make_unique<Infeasible>(std::move(infeasible));
  }
  if (!is_complete) {
    const Seconds floor = least_time.value_or(each.floor);
    all.floor = std::min(all.floor.value_or(floor), floor);
  }
}

std::optional<CalibrationReport> CalibrationOf(const std::vector<WorkloadSetting>& settings,
                                               const std::vector<VariantAnswer>& answers) {
  const auto own = std::ranges::find(answers, settings, &VariantAnswer::settings);
  return std::get<StudyResult>(*own->answer).calibration;
}

// An answer that recommends its first plan.
struct Recommended {
  const VariantAnswer* variant = nullptr;
  const StudyResult* result = nullptr;

  [[nodiscard]] const RankedPlan& First() const { return result->plans.front(); }
  [[nodiscard]] bool IsSafe(const ChoiceLimits& limits) const {
    return First().estimate.fit_probability >= limits.min_fit_probability;
  }
};

// Returns true if nobody can tell whether the other plan is slower than the fastest.
bool IsTied(const Recommended& fastest, const Recommended& other, const ChoiceLimits& limits) {
  const Seconds fast = fastest.First().estimate.step_time;
  const Seconds slow = other.First().estimate.step_time;
  return slow <= fast * kMaxTieRatio &&
         FasterProbability(fast, fastest.variant->uncertainties.front(), slow,
                           other.variant->uncertainties.front()) < limits.tie_probability;
}

// The plan to launch, and the fastest of those that are as sure to fit.
struct ChosenVariant {
  Recommended chosen = {};
  Recommended fastest = {};
};

// Chooses among the answers whose first plan fits surely enough, if there are such: the fastest, or
// one that is tied with it and changes fewer settings.
std::optional<ChosenVariant> ToLaunch(const std::vector<VariantAnswer>& answers,
                                      const ChoiceLimits& limits) {
  std::vector<Recommended> all;
  for (const VariantAnswer& each : answers) {
    const auto* own = each.answer.ok() ? std::get_if<StudyResult>(&*each.answer) : nullptr;
    if (own != nullptr && own->recommendation.has_value()) all.push_back({&each, own});
  }
  if (all.empty()) return std::nullopt;
  std::ranges::stable_sort(all, {}, [&](const Recommended& each) {
    return std::pair(!each.IsSafe(limits), each.First().estimate.step_time);
  });
  const Recommended& fastest = all.front();
  const Recommended& chosen = *std::ranges::min_element(all, {}, [&](const Recommended& each) {
    const bool is_tied = &each == &fastest || (each.IsSafe(limits) == fastest.IsSafe(limits) &&
                                               IsTied(fastest, each, limits));
    return std::pair(!is_tied, each.variant->changed_count);
  });
  return ChosenVariant{.chosen = chosen, .fastest = fastest};
}

// Returns the reason of the chosen plan, whose own search compared it with plans of its settings
// only.
std::vector<VerdictFact> FactsOf(const ChosenVariant& chosen) {
  const Recommended& own = chosen.chosen;
  std::vector<VerdictFact> facts = {
      {.code = VerdictCode::kAmongSettings, .settings = NameOf(own.variant->settings)}};
  std::ranges::copy(own.result->recommendation->facts, std::back_inserter(facts));
  if (own.variant == chosen.fastest.variant) return facts;
  const Seconds fastest = chosen.fastest.First().estimate.step_time;
  facts.push_back({.code = VerdictCode::kKeepsFrameworkSettings,
                   .settings = NameOf(chosen.fastest.variant->settings),
                   .slower_ratio = own.First().estimate.step_time / fastest - 1});
  return facts;
}

// Drops plans that are in the list already and cost the same: a setting has no effect on them.
void DropRepeated(std::vector<RankedPlan>& plans) {
  std::vector<RankedPlan> kept;
  for (RankedPlan& ranked : plans) {
    const bool is_repeated = std::ranges::any_of(kept, [&](const RankedPlan& other) {
      return other.estimate.step_time == ranked.estimate.step_time && other.plan == ranked.plan &&
             other.estimate == ranked.estimate;
    });
    if (!is_repeated) kept.push_back(std::move(ranked));
  }
  plans = std::move(kept);
}

// Moves the plan to launch to the front.
void PutRecommendedFirst(const std::vector<VariantAnswer>& answers, const ChoiceLimits& limits,
                         StudyResult& result) {
  const std::optional<ChosenVariant> found = ToLaunch(answers, limits);
  if (!found.has_value()) return;
  const Recommended& chosen = found->chosen;
  result.recommendation = chosen.result->recommendation;
  result.recommendation->facts = FactsOf(*found);
  result.recommendation->reason = VerdictText(result.recommendation->facts, limits);
  // The user's plan does not run with settings that are not the framework's.
  if (chosen.variant->changed_count > 0) result.recommendation->advice = Advice::kLaunch;
  const auto at = std::ranges::find_if(result.plans, [&](const RankedPlan& ranked) {
    return ranked.settings == chosen.variant->settings && ranked.plan == chosen.First().plan;
  });
  std::rotate(result.plans.begin(), at, at + 1);
}

const TimeUncertainty& UncertaintyOf(const RankedPlan& ranked,
                                     const std::vector<VariantAnswer>& answers) {
  const VariantAnswer& own = *std::ranges::find(answers, ranked.settings, &VariantAnswer::settings);
  const std::vector<RankedPlan>& plans = std::get<StudyResult>(*own.answer).plans;
  const auto at = std::ranges::find(plans, ranked.plan, &RankedPlan::plan);
  return own.uncertainties[static_cast<std::size_t>(at - plans.begin())];
}

// Sets the probability of each plan to be the fastest of the list.
void SetFastestProbabilities(const std::vector<VariantAnswer>& answers,
                             std::vector<RankedPlan>& plans) {
  std::vector<Seconds> steps;
  std::vector<TimeUncertainty> uncertainties;
  for (const RankedPlan& ranked : plans) {
    steps.push_back(ranked.estimate.step_time);
    uncertainties.push_back(UncertaintyOf(ranked, answers));
  }
  const std::vector<double> fastest = FastestProbabilities(steps, uncertainties);
  for (std::size_t i = 0; i < plans.size(); ++i) plans[i].fastest_probability = fastest[i];
}

bool IsOfSetting(const DimensionRequest& dimension) {
  return std::ranges::find(kWorkloadSettings, dimension.name, &WorkloadSettingRow::field) !=
         kWorkloadSettings.end();
}

// A setting that a request leaves open, and the codes of its values.
struct OpenSetting {
  const WorkloadSettingRow* row = nullptr;
  std::vector<int> codes = {};
};

// Adds a mistake for each open setting that the workload states too.
std::vector<OpenSetting> OpenSettings(const SpaceOptions& options, const WorkloadRequest& workload,
                                      std::vector<FieldViolation>& violations) {
  std::vector<OpenSetting> open;
  for (std::size_t i = 0; i < kWorkloadSettings.size(); ++i) {
    const WorkloadSettingRow& row = kWorkloadSettings[i];
    if (options.settings[i].values.empty()) continue;
    open.push_back({.row = &row, .codes = options.settings[i].values});
    if (const std::optional<int> stated = row.stated(workload)) {
      violations.push_back(
          {.field = "dimensions",
           .description = fmt::format("{}: the workload states {}; leave one of them out",
                                      row.field, row.word(*stated))});
    }
  }
  return open;
}

// Returns the codes of every combination of values, those of the first setting changing slowest.
std::vector<std::vector<int>> Combinations(const std::vector<OpenSetting>& open) {
  std::vector<std::vector<int>> combinations(1);
  for (const OpenSetting& setting : open) {
    std::vector<std::vector<int>> longer;
    for (const std::vector<int>& combination : combinations) {
      for (const int code : setting.codes) {
        longer.push_back(combination);
        longer.back().push_back(code);
      }
    }
    combinations = std::move(longer);
  }
  return combinations;
}

std::size_t CombinationCount(const std::vector<OpenSetting>& open) {
  std::size_t count = 1;
  for (const OpenSetting& setting : open) count *= setting.codes.size();
  return count;
}

// Returns the framework's values of settings under this precision, which some of them follow.
absl::StatusOr<Workload> UsualWorkload(const ResolvedStudy& study,
                                       const std::vector<OpenSetting>& open,
                                       const std::vector<int>& codes, const Knowledge& knowledge) {
  const bool opens_precision = open.front().row->field == kPrecisionField;
  if (!opens_precision || open.size() == 1) return study.problem.workload;
  StudyRequest request = study.request;
  open.front().row->state(request.question.workload, codes.front());
  ASSIGN_OR_RETURN(const ResolvedStudy resolved, ResolveStudy(std::move(request), knowledge));
  Workload usual = resolved.problem.workload;
  usual.precision = study.problem.workload.precision;
  return usual;
}

// Prepares the question with these values of its open settings.
absl::StatusOr<PreparedVariant> PrepareVariant(const ResolvedStudy& study,
                                               const std::vector<OpenSetting>& open,
                                               const std::vector<int>& codes,
                                               const Knowledge& knowledge,
                                               const HistorySource& source) {
  PreparedVariant variant;
  ASSIGN_OR_RETURN(const Workload usual, UsualWorkload(study, open, codes, knowledge));
  StudyRequest request = study.request;
  std::erase_if(request.dimensions, IsOfSetting);
  for (std::size_t i = 0; i < open.size(); ++i) {
    const WorkloadSettingRow& row = *open[i].row;
    row.state(request.question.workload, codes[i]);
    variant.settings.push_back(
        {.field = std::string(row.field), .value = std::string(row.word(codes[i]))});
    if (codes[i] != row.chosen(usual)) ++variant.changed_count;
  }
  ASSIGN_OR_RETURN(ResolvedStudy resolved, ResolveStudy(std::move(request), knowledge));
  ASSIGN_OR_RETURN(variant.question, PrepareSearch(std::move(resolved), knowledge, source));
  return variant;
}

}  // namespace

absl::StatusOr<std::vector<PreparedVariant>> PrepareVariants(const ResolvedStudy& study,
                                                             const Knowledge& knowledge,
                                                             const HistorySource& source) {
  SpaceOptions options;
  auto violations = ApplyDimensions(study.request.dimensions, "dimensions", options);
  if (!violations.empty()) return InvalidFields(violations);
  std::vector<PreparedVariant> variants;
  const std::vector<OpenSetting> open =
      OpenSettings(options, study.request.question.workload, violations);
  if (const std::size_t count = CombinationCount(open); count > kMaxVariants) {
    violations.push_back(
        {.field = "dimensions",
         .description = fmt::format("{} combinations of settings of the workload; must be <= {}",
                                    count, kMaxVariants)});
  }
  if (!violations.empty()) return InvalidFields(violations);
  if (!open.empty()) {
    RETURN_IF_ERROR(RequireOnePool(study.problem, "a search of open settings of the workload"));
  }
  if (open.empty()) {
    ASSIGN_OR_RETURN(PreparedQuestion question, PrepareSearch(study, knowledge, source));
    variants.push_back({.question = std::move(question)});
    return variants;
  }
  for (const std::vector<int>& codes : Combinations(open)) {
    ASSIGN_OR_RETURN(PreparedVariant variant,
                     PrepareVariant(study, open, codes, knowledge, source));
    variants.push_back(std::move(variant));
  }
  return variants;
}

absl::StatusOr<StudyAnswer> BestOf(const std::vector<VariantAnswer>& answers,
                                   const StudyRequest& request) {
  if (answers.front().settings.empty()) return answers.front().answer;
  Gathered all;
  all.result.search.complete = true;
  for (const VariantAnswer& each : answers) {
    const absl::Status& status = each.answer.status();
    if (!status.ok() && !IsCut(status) && !FitsNothing(status)) return status;
  }
  // Equal plans are shown with the settings that change least, and so is the baseline.
  std::vector<const VariantAnswer*> ordered;
  ordered.reserve(answers.size());
  for (const VariantAnswer& each : answers) ordered.push_back(&each);
  std::ranges::stable_sort(ordered, {}, &VariantAnswer::changed_count);
  for (const VariantAnswer* const each : ordered) Gather(*each, all);
  StudyResult& best = all.result;
  if (best.plans.empty()) {
    if (!all.cut.ok()) return all.cut;
    // No plan fits by the vendor's model in any variant; each warning names one variant.
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
  DropRepeated(best.plans);
  best.calibration = CalibrationOf(best.plans.front().settings, answers);
  best.pareto_front = FrontOf(std::move(best.pareto_front));
  const auto plan_count = static_cast<std::size_t>(request.plan_count);
  if (best.plans.size() > plan_count) best.plans.resize(plan_count);
  if (best.recommendation.has_value()) SetFastestProbabilities(answers, best.plans);
  best.applied_defaults = JoinedDefaults(all.defaults);
  std::ranges::move(JoinedWarnings(all.warnings), std::back_inserter(best.warnings));
  if (all.floor.has_value()) {
    best.search.optimality_gap = std::max(
        0.0, best.model_optimum.value_or(best.plans.front()).estimate.step_time / *all.floor - 1);
  }
  if (!all.cut.ok()) {
    best.warnings.emplace_back("the search ended before every combination of settings had a plan");
  }
  return best;
}

}  // namespace meshwright

#include "server/tuner/precision_choice.h"

#include <fmt/format.h>

#include <algorithm>

#include "search_space/status.h"

namespace meshwright {
namespace {

constexpr std::string_view kDimension = "precision";

// What is wrong with the dimension; fills in its values.
std::optional<std::string> Read(const DimensionRequest& dimension, const WorkloadRequest& workload,
                                std::vector<Precision>& precisions) {
  if (workload.precision.has_value()) {
    return fmt::format("the workload states {}; leave one of them out", Word(*workload.precision));
  }
  if (dimension.at_least.has_value() || dimension.at_most.has_value()) {
    return "takes values, not a range";
  }
  for (const std::string& word : dimension.values) {
    const auto precision = ParseChoice<Precision>(word);
    if (!precision.has_value()) {
      return fmt::format("\"{}\"; must be one of {}", word, AllowedWords<Precision>());
    }
    if (std::ranges::find(precisions, *precision) != precisions.end()) {
      return "states a value twice";
    }
    precisions.push_back(*precision);
  }
  return precisions.empty() ? std::optional<std::string>("states no values") : std::nullopt;
}

void Add(const SearchSummary& part, SearchSummary& sum) {
  sum.space_count += part.space_count;
  sum.evaluated_count += part.evaluated_count;
  sum.seconds += part.seconds;
  sum.optimality_gap = std::max(sum.optimality_gap, part.optimality_gap);
  sum.complete = sum.complete && part.complete;
  if (sum.stop_cause == StopCause::kFinished) sum.stop_cause = part.stop_cause;
  for (std::size_t i = 0; i < sum.pruned_count_by_rule.size(); ++i) {
    sum.pruned_count_by_rule[i].second += part.pruned_count_by_rule[i].second;
  }
}

template <typename T>
void AddNew(const std::vector<T>& from, std::vector<T>& to) {
  for (const T& item : from) {
    if (std::ranges::find(to, item) == to.end()) to.push_back(item);
  }
}

void Add(const StudyResult& part, StudyResult& sum) {
  sum.plans.insert(sum.plans.end(), part.plans.begin(), part.plans.end());
  Add(part.search, sum.search);
  AddNew(part.applied_defaults, sum.applied_defaults);
  AddNew(part.warnings, sum.warnings);
}

// The plans of a cut search are compared with the least time of any precision.
double GapOf(const StudyResult& sum, const std::vector<StudyResult>& parts) {
  double gap = 0;
  for (const StudyResult& part : parts) {
    const Seconds floor = part.plans.front().estimate.step_time / (1 + part.search.optimality_gap);
    gap = std::max(gap, sum.plans.front().estimate.step_time / floor - 1);
  }
  return gap;
}

StudyResult Merge(const std::vector<StudyResult>& parts, std::size_t plan_count) {
  StudyResult sum = parts.front();
  for (std::size_t i = 1; i < parts.size(); ++i) Add(parts[i], sum);
  std::ranges::stable_sort(sum.plans, {},
                           [](const RankedPlan& plan) { return plan.estimate.step_time; });
  if (sum.plans.size() > plan_count) sum.plans.resize(plan_count);
  if (!sum.search.complete) sum.search.optimality_gap = GapOf(sum, parts);
  return sum;
}

}  // namespace

absl::StatusOr<std::vector<PrecisionChoice>> PrecisionChoices(const StudyRequest& request) {
  const auto found = std::ranges::find(request.dimensions, kDimension, &DimensionRequest::name);
  if (found == request.dimensions.end()) return std::vector{PrecisionChoice{.request = request}};
  const auto index = found - request.dimensions.begin();
  std::vector<Precision> precisions;
  if (const auto problem = Read(*found, request.question.workload, precisions)) {
    return InvalidFields({{.field = fmt::format("dimensions[{}]", index),
                           .description = fmt::format("{}: {}", kDimension, *problem)}});
  }
  std::vector<PrecisionChoice> choices;
  for (const Precision precision : precisions) {
    PrecisionChoice choice = {.request = request, .precision = precision};
    choice.request.dimensions.erase(choice.request.dimensions.begin() + index);
    choice.request.question.workload.precision = precision;
    choices.push_back(std::move(choice));
  }
  return choices;
}

absl::StatusOr<StudyAnswer> BestOf(std::vector<PrecisionAnswer> answers, std::size_t plan_count) {
  if (answers.size() == 1 && !answers.front().precision) return std::move(answers.front().answer);
  std::vector<StudyResult> results;
  std::optional<Infeasible> nearest;
  bool was_cut = false;
  for (PrecisionAnswer& each : answers) {
    if (!each.answer.ok()) {
      was_cut = true;
      continue;
    }
    if (auto* result = std::get_if<StudyResult>(&*each.answer)) {
      for (RankedPlan& plan : result->plans) plan.precision = each.precision;
      if (result->baseline) result->baseline->precision = each.precision;
      results.push_back(std::move(*result));
      continue;
    }
    auto& infeasible = std::get<Infeasible>(*each.answer);
    if (infeasible.nearest) infeasible.nearest->precision = each.precision;
    if (!nearest.has_value() || infeasible.missing < nearest->missing) nearest = infeasible;
  }
  if (results.empty()) {
    const auto failed = std::ranges::find_if(
        answers, [](const PrecisionAnswer& each) { return !each.answer.ok(); });
    if (failed != answers.end()) return failed->answer.status();
    return *std::move(nearest);
  }
  StudyResult best = Merge(results, plan_count);
  if (was_cut) {
    best.search.complete = false;
    best.search.stop_cause = StopCause::kDeadline;
    best.warnings.emplace_back("the search was cut before every precision had a plan");
  }
  return best;
}

}  // namespace meshwright

#include "server/tuner/search/study_check.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "pruner/pruner.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/space/space_request.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/strategies.h"

namespace meshwright {
namespace {

class Violations {
 public:
  void Add(std::string_view field, std::string description) {
    found_.push_back({.field = std::string(field), .description = std::move(description)});
  }

  void RequirePositive(std::string_view field, double value) {
    if (std::isfinite(value) && value > 0) return;
    Add(field, fmt::format("{}; must be > 0", value));
  }

  void RequireWord(std::string_view field, std::string_view word,
                   const std::vector<std::string_view>& words) {
    if (std::ranges::find(words, word) != words.end()) return;
    Add(field, fmt::format("\"{}\"; must be one of {}", word, fmt::join(words, ", ")));
  }

  std::vector<FieldViolation>& found() { return found_; }

 private:
  std::vector<FieldViolation> found_;
};

template <typename Rows>
std::vector<std::string_view> NamesOf(const Rows& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

// Checks the strategy, and rejects options that it does not use.
void CheckStrategy(const StudyRequest& request, Violations& violations) {
  const std::vector<std::string_view> strategies = NamesOf(Strategies());
  violations.RequireWord("strategy", request.strategy, strategies);
  if (std::ranges::find(strategies, request.strategy) == strategies.end()) return;
  const bool is_exhaustive = request.strategy == kExhaustive;
  if (request.evaluation_limit.has_value()) {
    const int limit = *request.evaluation_limit;
    if (is_exhaustive && !request.cost_model.has_value()) {
      violations.Add(
          "evaluation_limit",
          fmt::format("{}; must be absent: strategy {} takes no limit", limit, request.strategy));
    } else {
      violations.RequirePositive("evaluation_limit", limit);
    }
  }
  if (!is_exhaustive && request.pareto) {
    violations.Add("pareto", fmt::format("true; a front needs plans that are proven best, so "
                                         "strategy must be {}",
                                         kExhaustive));
  }
  if (!is_exhaustive && !request.disabled_rules.empty()) {
    violations.Add("disabled_rules", fmt::format("stated; must be absent with strategy {}: rules "
                                                 "can only be switched off with {}",
                                                 request.strategy, kExhaustive));
  }
}

}  // namespace

std::vector<FieldViolation> Validate(const StudyRequest& request) {
  Violations violations;
  if (request.plan_count < 1 || request.plan_count > kMaxPlanCount) {
    violations.Add("plan_count",
                   fmt::format("{}; must be between 1 and {}", request.plan_count, kMaxPlanCount));
  }
  const ChoiceLimits& choice = request.choice;
  if (!(choice.min_fit_probability >= 0 && choice.min_fit_probability <= kMaxFitProbability)) {
    violations.Add("min_fit_probability_ratio",
                   fmt::format("{}; must be between 0 and {}", choice.min_fit_probability,
                               kMaxFitProbability));
  }
  if (!(choice.tie_probability >= 0.5 && choice.tie_probability <= 1)) {
    violations.Add("tie_probability_ratio",
                   fmt::format("{}; must be between 0.5 and 1", choice.tie_probability));
  }
  if (!(request.mix_margin >= 0 && request.mix_margin <= kMaxMixMargin)) {
    violations.Add("mix_margin_ratio",
                   fmt::format("{}; must be between 0 and {}", request.mix_margin, kMaxMixMargin));
  }
  if (request.deadline.has_value()) {
    violations.RequirePositive("deadline_seconds", request.deadline->count());
  }
  CheckStrategy(request, violations);
  if (request.cost_model.has_value() && request.strategy != kExhaustive) {
    violations.Add("strategy", "stated beside cost_model, which does not use it");
  }
  SpaceOptions options;
  std::ranges::move(ApplyDimensions(request.dimensions, "dimensions", options),
                    std::back_inserter(violations.found()));
  for (std::size_t i = 0; i < request.disabled_rules.size(); ++i) {
    violations.RequireWord(fmt::format("disabled_rules[{}]", i), request.disabled_rules[i],
                           NamesOf(PruneRules()));
  }
  return std::move(violations.found());
}

}  // namespace meshwright

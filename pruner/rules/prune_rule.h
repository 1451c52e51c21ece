#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {

class FailedPlans;

// The reason for which plans need not be tried. Its texts are static, so that rejecting costs
// nothing.
struct Rejection {
  std::string_view rule = {};
  std::string_view reason = {};
  double value = 0;  // the plan's value
  double limit = 0;  // the value that it would need
};

// The information besides the plan that rules may use.
struct PruneContext {
  const EstimatorProblem& problem;
  const SearchSpace& space;
  // Null if no costs are known; then only rules about sizes reject anything.
  AnalyticModel* model = nullptr;
  const FailedPlans* failed = nullptr;  // failed runs of the question's own job; null: none
  // Upper limit of the step times that are still useful; nullopt: no limit.
  std::optional<Seconds> slowest_useful = {};
  // True if no plan has fitted so far, so that the search looks for the plan with the least memory.
  // That plan needs at most `least_missed`, if it is known.
  bool seeks_nearest = false;
  std::optional<Bytes> least_missed = {};

  // Returns true if a plan that does not fit and needs at least `least` memory is still of use.
  [[nodiscard]] bool MayBeNearest(Bytes least) const {
    return seeks_nearest && !(least_missed.has_value() && *least_missed < least);
  }
};

// A plan with its memory according to the built-in model.
struct PricedPlan {
  const ParallelPlan& plan;
  MemoryCheck memory = {};
};

// A rule has one of two hooks or both. One checks a prefix, after the walk has set the first
// `depth` dimensions of a plan, and rejects all plans below it or none. The other checks a priced
// plan and may reject it. Rules are pure. A proven rule never rejects a plan that is both legal and
// best. One that is not proven may: it says so in docs/pruning.md, and an answer is then proven
// best of the plans that it leaves.
struct PruneRule {
  std::string_view name;
  std::string_view what;  // for people
  bool is_proven = true;
  std::optional<Rejection> (*on_prefix)(const PruneContext& context, const ParallelPlan& prefix,
                                        int depth) = nullptr;
  std::optional<Rejection> (*on_plan)(const PruneContext& context,
                                      const PricedPlan& plan) = nullptr;
};

// Returns true if a rule is enabled in a request that disables some.
inline bool IsRuleOn(std::string_view rule, const std::vector<std::string>& disabled_rules) {
  return std::ranges::find(disabled_rules, rule) == disabled_rules.end();
}

inline constexpr std::string_view kFrameworkRule = "framework";
inline constexpr std::string_view kDivisibilityRule = "divisibility";
inline constexpr std::string_view kTopologyRule = "topology";
inline constexpr std::string_view kMemoryRule = "memory";
inline constexpr std::string_view kHistoryRule = "history";
inline constexpr std::string_view kDominanceRule = "dominance";
inline constexpr std::string_view kBoundRule = "bound";

}  // namespace meshwright

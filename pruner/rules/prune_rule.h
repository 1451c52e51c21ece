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

// Why plans need not be tried. Texts are static, so that rejecting costs nothing.
struct Rejection {
  std::string_view rule = {};
  std::string_view reason = {};
  double value = 0;  // what the plan has
  double limit = 0;  // what it would need
};

// What rules may lean on beside the plan.
struct PruneContext {
  const EstimatorProblem& problem;
  const SearchSpace& space;
  // Null: no costs are known, so that only rules about sizes reject anything.
  AnalyticModel* model = nullptr;
  const FailedPlans* failed = nullptr;  // runs of the question's own job; null: none
  // Plans that take longer are of no use; absent: any time is of use.
  std::optional<Seconds> slowest_useful = {};
  // Nothing fits so far, so that the plan that needs least memory is looked for. It needs no more
  // than `least_missed`, if that is known.
  bool seeks_nearest = false;
  std::optional<Bytes> least_missed = {};

  // Returns whether a plan that needs at least so much memory is still of use, though it does not
  // fit.
  [[nodiscard]] bool MayBeNearest(Bytes least) const {
    return seeks_nearest && !(least_missed.has_value() && *least_missed < least);
  }
};

// A plan with what the built-in model says of its memory.
struct PricedPlan {
  const ParallelPlan& plan;
  MemoryCheck memory = {};
};

// A rule looks at a prefix, after the walk has set the first `depth` dimensions of a plan, and
// rejects all plans below it or none; or at a priced plan, and rejects that. It has one of the two
// hooks or both. Rules are pure; each must never reject a plan that is both legal and best.
struct PruneRule {
  std::string_view name;
  std::string_view what;  // for people
  std::optional<Rejection> (*on_prefix)(const PruneContext& context, const ParallelPlan& prefix,
                                        int depth) = nullptr;
  std::optional<Rejection> (*on_plan)(const PruneContext& context,
                                      const PricedPlan& plan) = nullptr;
};

// Returns whether a rule is on in a request that switches some off.
inline bool IsRuleOn(std::string_view rule, const std::vector<std::string>& disabled_rules) {
  return std::ranges::find(disabled_rules, rule) == disabled_rules.end();
}

inline constexpr std::string_view kMemoryRule = "memory";
inline constexpr std::string_view kHistoryRule = "history";
inline constexpr std::string_view kDominanceRule = "dominance";
inline constexpr std::string_view kBoundRule = "bound";

}  // namespace meshwright

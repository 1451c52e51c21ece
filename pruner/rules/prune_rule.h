#pragma once

#include <optional>
#include <string_view>

#include "estimator/problem/estimator_problem.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {

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
};

// A rule that looks at the dimensions that are set: after the walk has set `depth` of them, it
// rejects the whole subtree or nothing. Rules are pure; each must never reject a plan that is both
// legal and best.
struct PruneRule {
  std::string_view name;
  std::string_view what;  // for people
  std::optional<Rejection> (*check)(const PruneContext& context, const ParallelPlan& prefix,
                                    int depth);
};

inline constexpr std::string_view kMemoryRule = "memory";
inline constexpr std::string_view kHistoryRule = "history";
inline constexpr std::string_view kDominanceRule = "dominance";
inline constexpr std::string_view kBoundRule = "bound";

}  // namespace meshwright

#pragma once

#include <optional>

#include "pruner/rules/prune_rule.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The hooks of the rules, with one rule per file; the rows of the table in pruner.cc.
std::optional<Rejection> CheckFramework(const PruneContext& context, const ParallelPlan& prefix,
                                        int depth);
std::optional<Rejection> CheckDivisibility(const PruneContext& context, const ParallelPlan& prefix,
                                           int depth);
std::optional<Rejection> CheckTopology(const PruneContext& context, const ParallelPlan& prefix,
                                       int depth);
std::optional<Rejection> CheckMemory(const PruneContext& context, const ParallelPlan& prefix,
                                     int depth);
std::optional<Rejection> CheckPlanMemory(const PruneContext& context, const PricedPlan& plan);
std::optional<Rejection> CheckHistory(const PruneContext& context, const ParallelPlan& prefix,
                                      int depth);
std::optional<Rejection> CheckPlanHistory(const PruneContext& context, const PricedPlan& plan);
std::optional<Rejection> CheckEqualPlans(const PruneContext& context, const ParallelPlan& prefix,
                                         int depth);
std::optional<Rejection> CheckBound(const PruneContext& context, const ParallelPlan& prefix,
                                    int depth);

// Returns true if `dimension` is the one that the walk has just set.
inline bool JustSet(Dimension dimension, int depth) {
  return depth == static_cast<int>(dimension) + 1;
}

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "estimator/analytic_model.h"
#include "search_space/plan.h"
#include "search_space/space.h"

namespace meshwright {

class FailedPlans;

// Why plans need not be tried. Texts are static, so that rejecting costs nothing.
struct Rejection {
  std::string_view rule = {};
  std::string_view reason = {};
  double value = 0;  // what the plan has
  double limit = 0;  // what it would need
};

// A rule that looks at the dimensions that are set: after the walk has set `depth` of them, it
// rejects the whole subtree or nothing. Rules are pure; each must never reject a plan that is both
// legal and best.
struct PruneRule {
  std::string_view name;
  std::string_view what;  // for people
  std::optional<Rejection> (*check)(const EstimatorProblem& problem, const ParallelPlan& prefix,
                                    int depth);
};

inline constexpr std::string_view kMemoryRule = "memory";
inline constexpr std::string_view kHistoryRule = "history";
inline constexpr std::string_view kDominanceRule = "dominance";
inline constexpr std::string_view kBoundRule = "bound";

// The ordered table: divisibility, topology, memory, history, dominance, bound. Memory, dominance
// among the recomputation choices of one plan, and the bound need the cost model: NarrowRecompute;
// history also needs measured runs: history_rule.h. The `check` of memory, history and bound is
// null.
std::span<const PruneRule> PruneRules();

// What is left of the recomputation choices of a plan whose other dimensions are set.
struct RecomputeChoice {
  ParallelPlan plan = {};
  QuickEstimate estimate = {};
};
struct OversizedPlan {
  ParallelPlan plan = {};
  Bytes reserved_memory = {};
};
struct NarrowedRecompute {
  std::vector<RecomputeChoice> kept = {};          // at most two when both rules are on
  std::optional<OversizedPlan> least_memory = {};  // of those that do not fit
  std::int64_t pruned_by_memory = 0;
  std::int64_t pruned_by_dominance = 0;
  std::int64_t pruned_by_bound = 0;
  std::int64_t failed = 0;  // when they were run
  std::int64_t evaluated = 0;
};

struct NarrowOptions {
  bool by_memory = true;        // drop choices that do not fit
  bool by_dominance = true;     // drop choices that recompute more than one that fits
  bool by_closed_form = false;  // estimate by it instead of simulating
  // Drop all choices where the plan takes longer than this without recomputation, which no choice
  // is faster than.
  std::optional<Seconds> slowest_useful = {};
  // Choices that failed when they were run are not kept; what may be best in their place is. Given
  // only where there may be such, since by_dominance must be off then.
  const FailedPlans* failed = nullptr;
};

// Recomputation costs time and saves memory, and both grow with the number of recomputed layers; so
// of a plan's choices only these can be best: none if it fits, else selective, and the least number
// of fully recomputed layers that fits (found by bisection), of each stage where the space has
// recomputes_by_stage; where it has mixes_recompute, the fastest mix of both that fits. Under a
// schedule whose order depends on the work every choice is looked at.
NarrowedRecompute NarrowRecompute(AnalyticModel& model, const SearchSpace& space,
                                  const ParallelPlan& prefix, const NarrowOptions& options);

}  // namespace meshwright

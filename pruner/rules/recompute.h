#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"

namespace meshwright {

class FailedPlans;

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

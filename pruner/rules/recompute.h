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

// A remaining recomputation choice of a plan whose other dimensions are set.
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
  std::optional<OversizedPlan> least_memory = {};  // the smallest choice that does not fit
  std::int64_t pruned_by_memory = 0;
  std::int64_t pruned_by_dominance = 0;
  std::int64_t pruned_by_bound = 0;
  std::int64_t pruned_by_framework = 0;
  std::int64_t failed = 0;  // number of choices that failed when they were run
  std::int64_t evaluated = 0;
};

struct NarrowOptions {
  bool by_memory = true;        // drop choices that do not fit
  bool by_dominance = true;     // drop choices that recompute more than one that fits
  bool by_framework = true;     // drop choices that the framework refuses to run
  bool by_closed_form = false;  // estimate with the closed form instead of simulating
  // Drop all choices if the plan without recomputation, which is at least as fast as any choice,
  // takes longer than this.
  std::optional<Seconds> slowest_useful = {};
  // Choices that failed when they were run are not kept; the choices that may be best instead are.
  // Set only if there may be failed choices, since by_dominance must be off then.
  const FailedPlans* failed = nullptr;
};

// Keeps only the recomputation choices of a plan that can be best. Recomputation costs time and
// saves memory, and both grow with the number of recomputed layers. The best choice is therefore no
// recomputation if it fits, otherwise selective recomputation or the least number of fully
// recomputed layers that fits (found by bisection); that number is found for each stage if the
// space has recomputes_by_stage. If the space has mixes_recompute, it is the fastest mix of both
// that fits. Under a schedule whose order depends on the work, every choice is checked.
NarrowedRecompute NarrowRecompute(AnalyticModel& model, const SearchSpace& space,
                                  const ParallelPlan& prefix, const NarrowOptions& options);

}  // namespace meshwright

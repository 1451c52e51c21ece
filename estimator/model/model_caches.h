#pragma once

#include <optional>

#include "estimator/layer/layer_split.h"
#include "estimator/learning/run_residuals.h"
#include "estimator/model/unit_cost_cache.h"
#include "estimator/pipeline/simulation.h"
#include "estimator/problem/estimator_problem.h"

namespace meshwright {

// The factor on the step time of plans at one point.
struct TimeRatioAt {
  PlanPoint point = {};
  double ratio = 1;
};

// Everything that the model remembers from one plan to the next: memo tables, and nothing else.
// They decide how fast an estimate comes, never what it is. One question depends on what was asked
// before: PlanBounds::LeastTimeIfPriced answers only if `units` holds the times of the plan's
// layers. Not for use from several threads at once.
struct ModelCaches {
  // The referents of `problem` outlive the caches.
  explicit ModelCaches(const EstimatorProblem& problem)
      : units(problem), splits(problem.model, problem.profile) {}

  UnitCostCache units;
  DefaultSplits splits;
  PipelineSimulator pipelines;
  std::optional<TimeRatioAt> last_time_ratio = {};  // neighbours in a search share it
};

}  // namespace meshwright

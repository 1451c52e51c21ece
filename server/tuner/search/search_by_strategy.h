#pragma once

#include "estimator/model/analytic_model.h"
#include "search_space/space/space.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {

// Default limit on evaluations. docs/search/strategies.md shows what a larger one gains.
inline constexpr int kDefaultEvaluationLimit = 10'000;

// Asks a strategy for plans, judges them by the cost model and tells the strategy the results,
// until the limit is reached, the strategy has no further plan, or options.stop ends it. The best
// plans are chosen as SearchExhaustively chooses them. Nothing is proven, so `complete` is false
// and no rule has a count. Only the plan count, stop and on_progress of `options` are used.
SearchFound SearchByStrategy(SearchStrategy& strategy, AnalyticModel& model,
                             const SearchSpace& space, const SearchOptions& options,
                             int evaluation_limit);

}  // namespace meshwright

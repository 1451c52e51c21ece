#pragma once

#include "estimator/model/analytic_model.h"
#include "search_space/space/space.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/strategy.h"

namespace meshwright {

// Evaluations of a search that states no limit. docs/search.md shows what more would bring.
inline constexpr int kDefaultEvaluationLimit = 10'000;

// Asks a strategy, judges by the cost model and tells, until the limit is reached, the strategy
// knows no further plan, or options.stop says so. The best plans are chosen as SearchExhaustively
// does; nothing is proven, so `complete` is false and no rule has a count. Of `options` it takes
// the plan count, stop and on_progress.
SearchFound SearchByAsking(SearchStrategy& strategy, AnalyticModel& model, const SearchSpace& space,
                           const SearchOptions& options, int evaluation_limit);

}  // namespace meshwright

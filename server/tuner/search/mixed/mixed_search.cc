#include "server/tuner/search/mixed/mixed_search.h"

#include <cstddef>
#include <optional>

#include "estimator/model/analytic_model.h"
#include "search_space/base/units.h"
#include "server/tuner/search/mixed/mixed_space.h"
#include "server/tuner/search/mixed/replica_search.h"
#include "server/tuner/search/mixed/replica_space.h"

namespace meshwright {

const SetFound* FastestOf(const std::vector<SetFound>& sets) {
  const SetFound* fastest = nullptr;
  for (const SetFound& set : sets) {
    if (!set.best.has_value()) continue;
    if (fastest == nullptr || set.best->estimate.step_time < fastest->best->estimate.step_time) {
      fastest = &set;
    }
  }
  return fastest;
}

const SetFound* FastestOf(const MixedFound& found) {
  const SetFound* const pipelines = FastestOf(found.sets);
  const SetFound* const replicas = FastestOf(found.replicas);
  if (pipelines == nullptr || replicas == nullptr) {
    return pipelines == nullptr ? replicas : pipelines;
  }
  return replicas->best->estimate.step_time < pipelines->best->estimate.step_time ? replicas
                                                                                  : pipelines;
}

MixedFound SearchMixed(const Problem& problem, const Calibration& calibration,
                       const SearchOptions& options, const SetLimits& limits) {
  const MixedSpace space(problem);
  AnalyticModel model(ToEstimatorProblem(problem), calibration);
  SharedPrices prices(problem, space, model);
  const MixedContext context = {
      .problem = problem, .space = space, .prices = prices, .model = model};
  SetLimits own = limits;
  own.stop = options.stop;
  MixedFound found;
  // A plan of equal degrees is a plan, so that the second search of a set begins with a good one.
  for (const std::vector<int>& pools : space.Sets()) {
    found.equal.push_back(SearchSet(context, pools, MixDegrees::kEqual, own, std::nullopt));
    found.sets.push_back(SearchSet(context, pools, MixDegrees::kAny, own, found.equal.back().best));
  }
  ReplicaSpace replicas(problem, space);
  if (replicas.shared().empty()) return found;
  std::optional<Seconds> mix;
  if (const SetFound* fastest = FastestOf(found.sets)) mix = fastest->best->estimate.step_time;
  for (const std::vector<int>& pools : space.Sets()) {
    found.replicas.push_back(SearchReplicas(problem, replicas, space, model, pools, own, mix));
  }
  return found;
}

}  // namespace meshwright

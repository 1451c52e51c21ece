#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "estimator/model/analytic_model.h"
#include "estimator/model/stage.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/mixed/layer_splits.h"
#include "server/tuner/search/mixed/mixed_pipeline.h"
#include "server/tuner/search/mixed/replica_shape.h"
#include "server/tuner/search/mixed/stage_prices.h"

namespace meshwright {

// A split of the layers of a group's replicas, and its costs.
struct PricedSplit {
  std::vector<StageLayers> split = {};
  Seconds pipeline = Seconds(0);
  Seconds tail = Seconds(0);
};

// The bounds within which a split is looked for.
struct SplitGoal {
  Seconds useful = Seconds(0);  // pipelines that take as long or longer are of no use
  Seconds enough = Seconds(0);  // a pipeline that takes no longer is as good as any
  Seconds end = Seconds(0);     // all tails must be shorter
};

// Returns a ring that is no slower than that of these replicas with any of the other pools: those
// have one rank each, in whole nodes, and as many ranks as there can be share the states.
ReplicaRing LeastRing(const ReplicaDegrees& degrees, const std::vector<int>& pools,
                      const Problem& problem, const EstimatorProblem& estimator_problem);

// Prices the replicas of one group by the estimator's own parts, and finds the split of their
// layers. Remembers what it finds.
class ReplicaPrices {
 public:
  // `ring` is that of the plan. The problem and the model outlive the prices.
  ReplicaPrices(const SharedByReplicas& shared, const ReplicaDegrees& degrees,
                const ReplicaRing& ring, const Problem& problem, AnalyticModel& model);

  // Returns false if no split fits, however few micro-batches there are. True may be wrong.
  [[nodiscard]] bool MayFit() const { return may_fit_; }
  // Returns a lower bound of the tails of all splits that fit.
  Seconds LeastTail();

  // Returns as even a split as there is, or nullopt if it does not fit.
  std::optional<PricedSplit> FindEven(int micro_batches);
  // Returns the fastest split for so many micro-batches, or one that is fast enough; nullopt if
  // none is within the goal. Takes the partial splits that it looks at from `nodes_left`, and sets
  // `least_left_out` to the bound of those for which none were left.
  std::optional<PricedSplit> Find(int micro_batches, const SplitGoal& goal,
                                  std::int64_t& nodes_left, std::optional<Seconds>& least_left_out);

 private:
  // The best of the splits for so many micro-batches whose tails are shorter than an end, as far as
  // it is known.
  struct Known {
    std::optional<PricedSplit> found = {};
    bool is_fastest = false;
    Seconds none_below = Seconds(0);
  };

  [[nodiscard]] ParallelPlan PlanOf(const ReplicaWork& work) const;
  const MixedPipeline& Pipeline();
  [[nodiscard]] PricedSplit Priced(int micro_batches, std::vector<StageLayers> split);
  void Search(int micro_batches, const SplitGoal& goal, std::int64_t& nodes_left,
              std::optional<Seconds>& least_left_out, Known& known);

  const SharedByReplicas& shared_;
  ReplicaDegrees degrees_;
  const Problem& problem_;
  AnalyticModel& model_;
  StagePrices prices_;
  std::optional<MixedPipeline> pipeline_ = {};  // made when it is first asked for
  bool may_fit_ = false;
  std::optional<Seconds> least_tail_ = {};
  std::map<int, std::map<Seconds, Known>> known_;  // by micro-batches and end
};

}  // namespace meshwright

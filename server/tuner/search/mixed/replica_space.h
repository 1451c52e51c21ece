#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "estimator/problem/legality_rule.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/mixed/mixed_shape.h"
#include "server/tuner/search/mixed/mixed_space.h"
#include "server/tuner/search/mixed/replica_shape.h"

namespace meshwright {

// Returns the rule by which the framework runs no replicas that differ, or null if it may run some.
const LegalityRule* RuleAgainstReplicas(const Problem& problem);

// The plans of replicas that differ that a search looks at (docs/mixed-clusters.md): for every set
// of two pools or more one group of equal replicas in each pool, which use all its devices; one
// tensor parallelism for all groups; in each group its own context parallelism, number and layers
// of stages, micro-batch size and number of micro-batches. The user's choices and the framework's
// rules narrow them.
class ReplicaSpace {
 public:
  // `mixed` is the space of mixed pipelines of the same problem. Both outlive the space.
  ReplicaSpace(const Problem& problem, const MixedSpace& mixed);

  // Empty if the framework runs no such plans.
  [[nodiscard]] const std::vector<SharedByReplicas>& shared() const { return shared_; }
  // Returns all ways to use a pool beside these shared choices.
  std::vector<ReplicaDegrees> DegreesOf(int pool, const SharedByReplicas& shared);
  // Returns true if the replicas may differ only in their chips and their micro-batch sizes. All
  // stages then have equally many layers.
  [[nodiscard]] bool NeedsEqualShapes() const { return needs_equal_shapes_; }
  // Returns true if the checker of plans and the framework's rules allow the plan.
  [[nodiscard]] bool Allows(const ParallelPlan& plan) const;

 private:
  using Layout = std::tuple<ReplicaDegrees, ContextParallelKind, int>;  // and expert parallelism

  [[nodiscard]] bool IsPossible(const ReplicaDegrees& degrees, const SharedByReplicas& shared);

  const Problem& problem_;
  const MixedSpace& mixed_;
  bool needs_equal_shapes_ = false;
  std::vector<SharedByReplicas> shared_;
  std::map<Layout, bool> possible_;
};

}  // namespace meshwright

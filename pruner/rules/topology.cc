#include "estimator/problem/estimator_problem.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/rules.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Tensor parallelism exchanges activations several times per layer, so its groups are laid out
// along the fast links: inside one node (or a fabric that spans nodes), or over whole nodes. A
// group that does neither would have unequal shares of members on both sides of a border between
// nodes, which no framework's rank order produces. Groups over whole nodes are slow but legal. They
// can be best if little else fits, so the cost model judges them.
std::optional<Rejection> CheckTopology(const PruneContext& context, const ParallelPlan& plan,
                                       int depth) {
  if (!JustSet(Dimension::kTensorParallel, depth)) return std::nullopt;
  const int node = ScaleUpDeviceCount(context.problem.cluster.pools.front());
  const int t = plan.tensor_parallel;
  if (node % t == 0 || t % node == 0) return std::nullopt;
  return Rejection{
      .rule = kTopologyRule,
      .reason = "the tensor-parallel group neither divides a node evenly nor spans whole nodes",
      .value = static_cast<double>(t),
      .limit = static_cast<double>(node)};
}

}  // namespace meshwright

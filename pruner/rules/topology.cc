#include "estimator/problem/estimator_problem.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/rules.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Tensor parallelism exchanges activations several times a layer, so its groups are laid out along
// the fast links: inside one node (or a fabric that spans nodes), or over whole ones. A group that
// fills neither would have members on both sides of a border with unequal shares, which no
// framework's rank order gives. Whole nodes are slow but legal: where little else fits they can be
// best, so the cost model judges them.
std::optional<Rejection> CheckTopology(const PruneContext& context, const ParallelPlan& plan,
                                       int depth) {
  if (!JustSet(Dimension::kTensorParallel, depth)) return std::nullopt;
  const int node = ScaleUpDeviceCount(context.problem.cluster.pools.front());
  const int t = plan.tensor_parallel;
  if (node % t == 0 || t % node == 0) return std::nullopt;
  return Rejection{
      .rule = "topology",
      .reason = "the tensor-parallel group fills neither a part of a node nor whole nodes",
      .value = static_cast<double>(t),
      .limit = static_cast<double>(node)};
}

}  // namespace meshwright

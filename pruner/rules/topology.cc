#include "pruner/rules/rules.h"

namespace meshwright {

// Tensor parallelism exchanges activations several times a layer; across nodes each exchange runs
// at the rate of a NIC, an order of magnitude below the scale-up link, so the same devices do
// better as pipeline or data ranks. The rule rejects only what crosses the domain.
std::optional<Rejection> CheckTopology(const EstimatorProblem& problem, const ParallelPlan& plan,
                                       int depth) {
  if (!JustSet(Dimension::kTensorParallel, depth)) return std::nullopt;
  const int domain = problem.cluster.pools.front().devices_per_node;
  if (plan.tensor_parallel <= domain && domain % plan.tensor_parallel == 0) return std::nullopt;
  if (plan.tensor_parallel == 1) return std::nullopt;
  return Rejection{.rule = "topology",
                   .reason = "the tensor-parallel group leaves the node",
                   .value = static_cast<double>(plan.tensor_parallel),
                   .limit = static_cast<double>(domain)};
}

}  // namespace meshwright

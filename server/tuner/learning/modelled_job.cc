#include "server/tuner/learning/modelled_job.h"

#include <algorithm>
#include <cstddef>

#include "estimator/learning/run_residuals.h"
#include "estimator/model/analytic_model.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/fingerprint.h"

namespace meshwright {

std::string NodesOf(const Problem& problem) {
  ClusterSpec nodes;
  for (const NodePool& pool : problem.cluster.pools) {
    nodes.pools.push_back({.chip = {.id = pool.chip.id},
                           .devices_per_node = pool.devices_per_node,
                           .intra_node = pool.intra_node,
                           .inter_node = pool.inter_node,
                           .physical_devices_per_node = pool.physical_devices_per_node});
  }
  return HardwareFingerprint(nodes);
}

ModelledJob ModelJob(const Problem& problem, const ParallelPlan& plan, const Calibration& known) {
  AnalyticModel model(ToEstimatorProblem(problem), known);
  const Estimate estimate = model.Full(plan);
  const auto& pools = problem.cluster.pools;
  auto fullest = pools.begin();
  if (!estimate.stages.empty()) {
    const auto busiest = static_cast<std::size_t>(estimate.busiest_stage);
    fullest = std::ranges::find(pools, estimate.stages[busiest].pool, &NodePool::name);
  }
  return {.step_time = estimate.step_time,
          .peak_memory = estimate.peak_memory,
          .reserved_memory = estimate.reserved_memory,
          .fullest_pool = static_cast<std::size_t>(fullest - pools.begin()),
          .point = PointOf(plan, ToEstimatorProblem(problem)),
          .nodes = NodesOf(problem),
          .plan_key = MakePlanKey(plan).text};
}

}  // namespace meshwright

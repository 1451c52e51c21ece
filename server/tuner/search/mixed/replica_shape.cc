#include "server/tuner/search/mixed/replica_shape.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "search_space/spec/cluster.h"

namespace meshwright {

bool HaveEqualShapes(const ReplicaDegrees& a, const ReplicaDegrees& b) {
  return a.stages == b.stages && a.context_parallel == b.context_parallel;
}

void LevelRecomputation(std::vector<ReplicaWork>& works) {
  for (std::size_t stage = 0; stage < works.front().split.size(); ++stage) {
    int most = 0;
    for (const ReplicaWork& work : works) most = std::max(most, work.split[stage].recomputed);
    for (ReplicaWork& work : works) work.split[stage].recomputed = most;
  }
}

StagePlan StageOf(const ReplicaDegrees& degrees, const Problem& problem) {
  const NodePool& pool = problem.cluster.pools[static_cast<std::size_t>(degrees.pool)];
  const int devices = degrees.tensor_parallel * degrees.context_parallel;
  StagePlan stage = {.pool = pool.name,
                     .node_count = std::max(1, devices / pool.devices_per_node),
                     .tensor_parallel = degrees.tensor_parallel,
                     .context_parallel = degrees.context_parallel,
                     .micro_batch_size = degrees.micro_batch_size};
  if (devices < pool.devices_per_node) stage.device_count = devices;
  return stage;
}

ReplicaGroup GroupOf(const ReplicaDegrees& degrees, const ReplicaWork& work, MixRecompute recompute,
                     const Problem& problem) {
  ReplicaGroup group = {.replica_count = degrees.replicas, .micro_batch_count = work.micro_batches};
  StagePlan stage = StageOf(degrees, problem);
  group.stages.reserve(work.split.size());
  for (const StageLayers& own : work.split) {
    stage.layer_count = own.layers;
    stage.recompute = RecomputeOf(recompute, own.recomputed);
    group.stages.push_back(stage);
  }
  return group;
}

ParallelPlan PlanOfGroups(const SharedDegrees& shared, std::vector<ReplicaGroup> groups,
                          const Problem& problem) {
  std::ranges::sort(groups);
  ParallelPlan plan = FlatPlanOf(shared, static_cast<int>(groups.front().stages.size()), problem);
  plan.replica_groups = std::move(groups);
  return plan;
}

}  // namespace meshwright

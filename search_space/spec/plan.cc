#include "search_space/spec/plan.h"

#include <algorithm>
#include <cassert>
#include <cstdint>

namespace meshwright {
namespace {

int ShareOf(int layers, double ratio) {
  // 0.29 x 100 is a little less than 29 in binary.
  constexpr double kRounding = 1e-9;
  return std::clamp(static_cast<int>(ratio * layers + kRounding), 0, layers);
}

}  // namespace

int OffloadedLayers(double ratio, int layers) {
  return std::min(ShareOf(layers, ratio), std::max(0, layers - 1));
}

int WholeLayers(double ratio, int layers) { return ShareOf(layers, ratio); }

const std::vector<StagePlan>& FirstPipeline(const ParallelPlan& plan) {
  return plan.replica_groups.empty() ? plan.stages : plan.replica_groups.front().stages;
}

ParallelPlan PlanOfReplica(const ParallelPlan& plan, const ReplicaGroup& group) {
  ParallelPlan replica = plan;
  replica.replica_groups.clear();
  replica.stages = group.stages;
  replica.pipeline_parallel = static_cast<int>(group.stages.size());
  return replica;
}

int ReplicaCount(const ParallelPlan& plan) {
  int count = 0;
  for (const ReplicaGroup& group : plan.replica_groups) count += group.replica_count;
  return count;
}

int StageCount(const ParallelPlan& plan) {
  const std::vector<StagePlan>& stages = FirstPipeline(plan);
  return stages.empty() ? plan.pipeline_parallel : static_cast<int>(stages.size());
}

int MicroBatchCount(const ParallelPlan& plan, int global_batch_size) {
  if (!plan.replica_groups.empty()) return plan.replica_groups.front().micro_batch_count;
  // All stages of a mixed cluster run the same micro-batches, so the first one is representative.
  const int data_parallel =
      plan.stages.empty() ? plan.data_parallel : plan.stages.front().data_parallel;
  const int micro_batch_size =
      plan.stages.empty() ? plan.micro_batch_size : plan.stages.front().micro_batch_size;
  const std::int64_t sequences = std::int64_t{data_parallel} * micro_batch_size;
  assert(sequences > 0);
  return static_cast<int>(global_batch_size / sequences);
}

}  // namespace meshwright

#include "server/tuner/search/mixed/mixed_shape.h"

#include <algorithm>
#include <cstddef>

#include "search_space/spec/cluster.h"

namespace meshwright {

int StageCount(const MixedShape& shape) {
  int stages = 0;
  for (const PoolDegrees& degrees : shape.stretches) stages += degrees.stages;
  return stages;
}

bool HasEqualDegrees(const MixedShape& shape) {
  const PoolDegrees& first = shape.stretches.front();
  return std::ranges::all_of(shape.stretches, [&](const PoolDegrees& degrees) {
    return degrees.tensor_parallel == first.tensor_parallel &&
           degrees.context_parallel == first.context_parallel &&
           degrees.data_parallel == first.data_parallel;
  });
}

ParallelPlan FlatPlanOf(const SharedDegrees& shared, int stages, const Problem& problem) {
  ParallelPlan plan;
  plan.sequence_parallel = shared.sequence_parallel;
  plan.pipeline_parallel = stages;
  plan.data_parallel = std::max(1, DeviceCount(problem.cluster) / stages);  // as ResolvePlan has it
  plan.context_parallel_kind = shared.context_parallel_kind;
  plan.expert_parallel = shared.expert_parallel;
  plan.expert_tensor_parallel = shared.expert_tensor_parallel;
  plan.zero_stage = shared.zero_stage;
  return plan;
}

StagePlan StageOf(const PoolDegrees& degrees, const SharedDegrees& shared, const Problem& problem) {
  const NodePool& pool = problem.cluster.pools[static_cast<std::size_t>(degrees.pool)];
  return {.pool = pool.name,
          .node_count = pool.node_count / degrees.stages,
          .tensor_parallel = degrees.tensor_parallel,
          .data_parallel = degrees.data_parallel,
          .context_parallel = degrees.context_parallel,
          .micro_batch_size = shared.sequences / degrees.data_parallel};
}

RecomputePlan RecomputeOf(MixRecompute recompute, int least_full) {
  switch (recompute) {
    case MixRecompute::kSelective:
      return {.granularity = RecomputeGranularity::kSelective};
    case MixRecompute::kEveryLayer:
      return {.granularity = RecomputeGranularity::kFull};
    case MixRecompute::kLeastFull:
      if (least_full > 0) {
        return {.granularity = RecomputeGranularity::kFull, .layer_counts = {least_full}};
      }
      break;
    case MixRecompute::kNone:
      break;
  }
  return {};
}

ParallelPlan PlanOf(const MixedShape& shape, const std::vector<StageLayers>& split,
                    const Problem& problem) {
  ParallelPlan plan = FlatPlanOf(shape.shared, static_cast<int>(split.size()), problem);
  for (const PoolDegrees& degrees : shape.stretches) {
    StagePlan stage = StageOf(degrees, shape.shared, problem);
    for (int i = 0; i < degrees.stages; ++i) {
      const StageLayers& own = split[plan.stages.size()];
      stage.layer_count = own.layers;
      stage.recompute = RecomputeOf(shape.shared.recompute, own.recomputed);
      plan.stages.push_back(stage);
    }
  }
  return plan;
}

std::vector<StageLayers> EvenSplit(int layers, int stages) {
  std::vector<StageLayers> split(static_cast<std::size_t>(stages), {.layers = layers / stages});
  for (int i = 0; i < layers % stages; ++i) ++split[static_cast<std::size_t>(i)].layers;
  return split;
}

ParallelPlan EvenPlanOf(const MixedShape& shape, const Problem& problem) {
  return PlanOf(shape, EvenSplit(problem.model.layer_count, StageCount(shape)), problem);
}

}  // namespace meshwright

#pragma once

#include <compare>
#include <vector>

#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/search/mixed/mixed_shape.h"

namespace meshwright {

// The way in which a pool is used by equal replicas of the model, each a pipeline of its own: all
// its devices, as stages of whole nodes or as equal parts of nodes.
struct ReplicaDegrees {
  int pool = 0;  // index in the cluster
  int replicas = 1;
  int stages = 1;  // of each replica
  int tensor_parallel = 1;
  int context_parallel = 1;
  int micro_batch_size = 1;
  auto operator<=>(const ReplicaDegrees&) const = default;
};

// The work of each replica of a group in a step.
struct ReplicaWork {
  int micro_batches = 1;
  std::vector<StageLayers> split = {};  // one entry for each stage
};

// The choices that all groups share.
struct SharedByReplicas {
  SharedDegrees degrees = {};  // `sequences` means nothing
  int tensor_parallel = 1;     // a layer has the same in all groups
  bool operator==(const SharedByReplicas&) const = default;
};

// Returns true if replicas of both have equally many stages with equal degrees; their tensor
// parallelism is equal anyway.
bool HaveEqualShapes(const ReplicaDegrees& a, const ReplicaDegrees& b);

// Lets the stages of one place recompute as many layers in all groups: as many as the group that
// needs most. The groups have equally many stages with equally many layers.
void LevelRecomputation(std::vector<ReplicaWork>& works);

// Returns a stage of the replicas, without layers and recomputation.
StagePlan StageOf(const ReplicaDegrees& degrees, const Problem& problem);

// Returns the group of these replicas.
ReplicaGroup GroupOf(const ReplicaDegrees& degrees, const ReplicaWork& work, MixRecompute recompute,
                     const Problem& problem);

// Returns the plan of these groups, in the canonical order.
ParallelPlan PlanOfGroups(const SharedDegrees& shared, std::vector<ReplicaGroup> groups,
                          const Problem& problem);

}  // namespace meshwright

#pragma once

#include <compare>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The recomputation of a mixed plan's stages.
enum class MixRecompute {
  kLeastFull,   // each stage fully recomputes as few of its layers as fit
  kNone,        // no stage recomputes
  kSelective,   // all layers of all stages recompute the framework's modules
  kEveryLayer,  // all layers of all stages recompute fully
};

// The choices that all stages of a mixed plan share.
struct SharedDegrees {
  int sequences = 1;  // of a micro-batch on all ranks: micro-batch x data parallelism
  bool sequence_parallel = false;
  ContextParallelKind context_parallel_kind = ContextParallelKind::kRing;
  int expert_parallel = 1;
  int expert_tensor_parallel = 1;
  int zero_stage = 0;
  MixRecompute recompute = MixRecompute::kLeastFull;
  bool operator==(const SharedDegrees&) const = default;
};

// The way in which a pool is used: all its nodes, as equally large stages that follow one another.
struct PoolDegrees {
  int pool = 0;  // index in the cluster
  int stages = 1;
  int tensor_parallel = 1;
  int context_parallel = 1;
  int data_parallel = 1;
  auto operator<=>(const PoolDegrees&) const = default;
};

// A mixed plan but for the layers of its stages.
struct MixedShape {
  SharedDegrees shared = {};
  std::vector<PoolDegrees> stretches = {};  // in the order of the pipeline
};

int StageCount(const MixedShape& shape);

// Returns true if all stages have equal degrees.
bool HasEqualDegrees(const MixedShape& shape);

// Returns the plan without its stages: the fields that hold for all of them.
ParallelPlan FlatPlanOf(const SharedDegrees& shared, int stages, const Problem& problem);

// Returns a stage of a stretch, without layers and recomputation.
StagePlan StageOf(const PoolDegrees& degrees, const SharedDegrees& shared, const Problem& problem);

// Returns what a stage of `layers` layers recomputes if as few as `least_full` fit.
RecomputePlan RecomputeOf(MixRecompute recompute, int least_full);

// The layers of one stage, and how many of them recompute under MixRecompute::kLeastFull.
struct StageLayers {
  int layers = 1;
  int recomputed = 0;
};

// Returns the whole plan; `split` has one entry for each stage.
ParallelPlan PlanOf(const MixedShape& shape, const std::vector<StageLayers>& split,
                    const Problem& problem);

// Returns as even a split over the stages as there is, without recomputation. There are at least as
// many layers as stages.
std::vector<StageLayers> EvenSplit(int layers, int stages);

// Returns a plan of this shape with as even a split as there is, to ask what is legal. The model
// has at least as many layers as the shape has stages.
ParallelPlan EvenPlanOf(const MixedShape& shape, const Problem& problem);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <vector>

#include "search_space/choices.h"
#include "search_space/model.h"
#include "search_space/plan.h"

namespace meshwright {

// The dimensions of a plan in the order in which the space is walked: what divides the devices
// comes first, so that whole subtrees can be cut and counted.
enum class Dimension {
  kTensorParallel,
  kContextParallel,
  kPipelineParallel,
  kExpertParallel,
  kExpertTensorParallel,
  kSequenceParallel,
  kMicroBatchSize,
  kVirtualPipeline,
  kZeroStage,
  kRecompute,
};
inline constexpr int kDimensionCount = 10;

// All the ways to cut a model over one pool of equal devices: every split of the devices into
// tensor x context x pipeline x data, every micro-batch that divides the batch, expert and
// expert-tensor parallelism, sequence parallelism, virtual stages, ZeRO 0-3, and recomputation of
// nothing, of the framework's selected modules, or of 1 .. all layers of a stage. Nothing is left
// out because it looks bad: that is the pruner's work.
class SearchSpace {
 public:
  SearchSpace(const ModelSpec& model, int device_count, int global_batch_size,
              ContextParallelKind context_parallel_kind);

  // Plans in the space.
  [[nodiscard]] std::int64_t Count() const;
  // Plans that share the first `depth` dimensions of `prefix`.
  [[nodiscard]] std::int64_t CountBelow(const ParallelPlan& prefix, int depth) const;

  // Values of a dimension after the earlier ones of `prefix`, ascending. Recomputation is coded as
  // 0 none, 1 selective, 1 + k full with k layers a stage.
  [[nodiscard]] std::vector<int> Values(Dimension dimension, const ParallelPlan& prefix) const;
  void Set(Dimension dimension, int value, ParallelPlan& plan) const;

  // The plan that every walk starts from.
  [[nodiscard]] ParallelPlan Root() const;

 private:
  [[nodiscard]] std::vector<int> RecomputeCodes(const ParallelPlan& prefix) const;
  [[nodiscard]] std::int64_t CountAfterDevices(const ParallelPlan& prefix, int depth) const;

  ModelSpec model_;
  int device_count_;
  int global_batch_size_;
  ContextParallelKind context_parallel_kind_;
};

// Visits the nodes of the space depth first without listing it. A node is a plan whose first
// depth() dimensions are set; Skip() leaves out what is below it.
class PlanWalk {
 public:
  explicit PlanWalk(const SearchSpace& space);
  // Only what is below the first `depth` dimensions of `prefix`.
  PlanWalk(const SearchSpace& space, const ParallelPlan& prefix, int depth);

  bool Next();  // false at the end
  void Skip() { descend_ = false; }
  [[nodiscard]] int depth() const { return depth_; }
  [[nodiscard]] bool is_plan() const { return depth_ == kDimensionCount; }
  [[nodiscard]] const ParallelPlan& plan() const { return plan_; }

 private:
  struct Level {
    std::vector<int> values;
    std::size_t next = 0;
  };
  const SearchSpace& space_;
  std::vector<Level> levels_;
  ParallelPlan plan_;
  int root_depth_ = 0;
  int depth_ = 0;
  bool descend_ = true;
};

std::vector<int> Divisors(int n);  // ascending

}  // namespace meshwright

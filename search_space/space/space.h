#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "search_space/space/dimensions.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// All the ways to partition a model over one pool of equal devices, as far as SpaceOptions allows
// them. They are every combination of: a split of the devices into tensor x context x pipeline x
// data; the kind of context parallelism; the rank order; a micro-batch that divides the batch;
// expert and expert-tensor parallelism; sequence parallelism; schedules and virtual stages; lighter
// first and last stages; ZeRO 0-3 with its groups, the layers whose weights stay whole and the
// share of the optimizer that is on the host; and either activations of some layers on the host, or
// recomputation of nothing, of the framework's selected modules, or of 1 to all layers of a stage.
// The space omits nothing because it looks bad: that is the pruner's job.
class SearchSpace {
 public:
  SearchSpace(const ModelSpec& model, int device_count, int global_batch_size,
              SpaceOptions options);

  // Returns the largest offloaded shares among all plans with the pipeline of `prefix`.
  [[nodiscard]] MostOffloaded MostOffloadedBelow(const ParallelPlan& prefix) const;
  // Returns the number of plans in the space.
  [[nodiscard]] std::int64_t Count() const;
  // Returns the number of plans that share the first `depth` dimensions of `prefix`.
  [[nodiscard]] std::int64_t CountBelow(const ParallelPlan& prefix, int depth) const;

  // Returns the values that a dimension can take after the earlier ones of `prefix`, ascending and
  // coded as DimensionRow says. Recomputation is kNoRecomputeCode, kSelectiveRecomputeCode, or that
  // + k for full recomputation of k layers per stage. The sizes of the largest and the first stage
  // are 0 if the framework splits the layers.
  [[nodiscard]] std::vector<int> Values(Dimension dimension, const ParallelPlan& prefix) const;
  // Sets one dimension; later dimensions get the values that they have at the root.
  void Set(Dimension dimension, int value, ParallelPlan& plan) const;

  [[nodiscard]] const SpaceOptions& options() const { return options_; }

  // Returns the plan that every walk starts from.
  [[nodiscard]] ParallelPlan Root() const;

 private:
  [[nodiscard]] std::vector<int> AllValues(Dimension dimension, const ParallelPlan& prefix) const;
  [[nodiscard]] std::vector<int> ContextParallelKinds(const ParallelPlan& prefix) const;
  [[nodiscard]] std::vector<int> RankOrders(const ParallelPlan& prefix) const;
  [[nodiscard]] bool RankOrdersDiffer(const ParallelPlan& prefix) const;
  [[nodiscard]] std::vector<int> ShardingGroups(const ParallelPlan& prefix) const;
  [[nodiscard]] std::vector<int> Schedules(const ParallelPlan& prefix) const;
  [[nodiscard]] std::vector<int> VirtualStages(const ParallelPlan& prefix) const;
  [[nodiscard]] std::vector<int> LargestStages(const ParallelPlan& prefix) const;
  [[nodiscard]] std::vector<int> FirstStages(const ParallelPlan& prefix) const;
  [[nodiscard]] std::vector<int> ActivationOffloads(const ParallelPlan& prefix) const;
  [[nodiscard]] std::vector<int> RecomputeCodes(const ParallelPlan& prefix) const;
  [[nodiscard]] int Meaning(Dimension dimension, int value, const ParallelPlan& prefix) const;
  [[nodiscard]] bool Allows(Dimension dimension, int value, const ParallelPlan& prefix) const;
  [[nodiscard]] std::int64_t CountBranch(const ParallelPlan& prefix, int depth, int end) const;
  [[nodiscard]] std::int64_t CountAfterDevices(const ParallelPlan& prefix, int depth) const;
  [[nodiscard]] std::int64_t CountPipelines(const ParallelPlan& prefix, int depth) const;
  [[nodiscard]] bool IsEvenSplit(int largest, int first, int last, int stages) const;

  ModelSpec model_;
  int device_count_;
  int global_batch_size_;
  SpaceOptions options_;
  std::map<int, std::int64_t> pipeline_counts_;  // results of CountPipelines by number of stages
};

// Visits the nodes of the space depth first without listing them all. A node is a plan whose first
// depth() dimensions are set; Skip() omits everything below the current node.
class PlanWalk {
 public:
  explicit PlanWalk(const SearchSpace& space);
  // Visits only the nodes below the first `depth` dimensions of `prefix`.
  PlanWalk(const SearchSpace& space, const ParallelPlan& prefix, int depth);

  bool Next();  // returns false at the end
  void Skip() { descend_ = false; }
  [[nodiscard]] int depth() const { return depth_; }
  // Returns the value of the dimension that was set last. Call it only after Next returned true.
  [[nodiscard]] int value() const { return levels_.back().values[levels_.back().next - 1]; }
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

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

// All the ways to cut a model over one pool of equal devices: every split of the devices into
// tensor x context x pipeline x data, every kind of context parallelism, orders of ranks, every
// micro-batch that divides the batch, expert and expert-tensor parallelism, sequence parallelism,
// schedules and virtual stages, lighter first and last stages, ZeRO 0-3, its groups, layers whose
// weights it leaves whole and what of its optimizer is on the host, and activations of some layers
// on the host, or recomputation of nothing, of the framework's selected modules, or of 1 .. all
// layers of a stage; as far as SpaceOptions leave it open. Nothing is left out because it looks
// bad: that is the pruner's work.
class SearchSpace {
 public:
  SearchSpace(const ModelSpec& model, int device_count, int global_batch_size,
              SpaceOptions options);

  // Of all plans with the pipeline of `prefix`.
  [[nodiscard]] MostOffloaded MostOffloadedBelow(const ParallelPlan& prefix) const;
  // Plans in the space.
  [[nodiscard]] std::int64_t Count() const;
  // Plans that share the first `depth` dimensions of `prefix`.
  [[nodiscard]] std::int64_t CountBelow(const ParallelPlan& prefix, int depth) const;

  // Returns the values of a dimension after the earlier ones of `prefix`, ascending and coded as
  // DimensionRow says. Recomputation is kNoRecomputeCode, kSelectiveRecomputeCode, or that + k for
  // full recomputation of k layers a stage. The largest and the first stage are 0 if the framework
  // splits the layers.
  [[nodiscard]] std::vector<int> Values(Dimension dimension, const ParallelPlan& prefix) const;
  // Later dimensions get their value at the root.
  void Set(Dimension dimension, int value, ParallelPlan& plan) const;

  [[nodiscard]] const SpaceOptions& options() const { return options_; }

  // The plan that every walk starts from.
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
  std::map<int, std::int64_t> pipeline_counts_;  // CountPipelines by number of stages
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
  // Of the dimension that was set last; after a Next that was true.
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

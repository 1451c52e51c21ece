#pragma once

#include <cstddef>
#include <span>

#include "absl/container/inlined_vector.h"
#include "estimator/layer/layer_split.h"
#include "estimator/model/stage.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {

class UnitCostCache;

// Neighbouring stages that are equal, as most of a pipeline's are.
struct StageRun {
  Stage stage = {};
  int first = 0;  // index of the first of them
  int count = 0;
};

// The place of a stage that names its pool.
struct StagePlace {
  int first_layer = 0;
  bool is_first = false;
  bool is_last = false;
};

// Returns the stage with the layers and the recomputation of `own`. `devices` have their unit and
// states; they, the layers and the model are those of the stage's plan.
Stage MakeStage(const StagePlan& own, const StagePlace& place, const StageDevices& devices,
                const LayerList& layers, const ModelSpec& model);

// The stages of one plan, made once and never changed: memory and time are functions of them. Not
// copyable, because the stages point to the devices beside them.
class StageRuns {
 public:
  // `plan` is legal (ResolvePlan, or the search space). The problem and the costs outlive the runs.
  StageRuns(const ParallelPlan& plan, const EstimatorProblem& problem, UnitCostCache& costs,
            DefaultSplits& splits);
  // The pipeline of one replica of a group of the plan.
  StageRuns(const ParallelPlan& plan, std::size_t group, const EstimatorProblem& problem,
            UnitCostCache& costs);
  StageRuns(const StageRuns&) = delete;
  StageRuns& operator=(const StageRuns&) = delete;

  [[nodiscard]] std::span<const StageRun> runs() const { return runs_; }
  // The different devices, in the order of the stages.
  [[nodiscard]] std::span<const StageDevices> devices() const { return devices_; }
  [[nodiscard]] const Stage& StageAt(int index) const;
  [[nodiscard]] int stage_count() const { return stage_count_; }
  [[nodiscard]] int micro_batches() const { return micro_batches_; }  // both directions together
  [[nodiscard]] Schedule schedule() const { return schedule_; }
  [[nodiscard]] int virtual_stages() const { return virtual_stages_; }  // the plan's
  [[nodiscard]] RankOrder rank_order() const { return rank_order_; }
  [[nodiscard]] bool stages_name_pools() const { return stages_name_pools_; }

 private:
  void AppendStagesOfOnePool(const ParallelPlan& plan, const EstimatorProblem& problem,
                             UnitCostCache& costs, std::span<const int> layers);
  // `plan` has the stages of the replica of `whole` that is the first of its group.
  void AppendStagesWithPools(const ParallelPlan& plan, const ParallelPlan& whole, std::size_t group,
                             const EstimatorProblem& problem, UnitCostCache& costs);
  const StageDevices* Append(const StageDevices& devices);
  void Append(const Stage& stage);

  absl::InlinedVector<StageDevices, 1> devices_;
  absl::InlinedVector<StageRun, 4> runs_;
  Schedule schedule_;
  int virtual_stages_;
  RankOrder rank_order_;
  bool stages_name_pools_;
  int stage_count_ = 0;
  int micro_batches_ = 1;
};

}  // namespace meshwright

#pragma once

#include <optional>

#include "estimator/model/analytic_model.h"
#include "estimator/model/stage.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Lower bounds for pruning: they hold for all plans that share some dimensions with a given one.
// AnalyticModel::Quick returns at least as much for each of these plans.
class PlanBounds {
 public:
  // The bounds use what `model` has priced, and add to it; it outlives them.
  explicit PlanBounds(AnalyticModel& model) : model_(model) {}

  // Bounds the plan's own step time. Returns nullopt after one table lookup if its layers have not
  // been priced, for any plan. It is the only bound that depends on what `model` was asked
  // before: what a search cuts by it is the same every time only if the model has met the same
  // plans in the same order.
  std::optional<Seconds> LeastTimeIfPriced(const ParallelPlan& plan);

  // Bound plans with the same parallel sizes, kinds and micro-batch, whatever their schedule, split
  // of layers, sharding of states, offload and recomputation. There is no bound on time if it
  // depends on these.
  std::optional<Seconds> LeastTimeBelow(const ParallelPlan& plan);
  [[nodiscard]] Bytes LeastMemoryBelow(const ParallelPlan& plan, const MostOffloaded& most) const;
  // Bounds those of these plans that also share the stage of ZeRO and the size of its group, if the
  // plan states one.
  [[nodiscard]] Bytes LeastMemoryOfZero(const ParallelPlan& plan, const MostOffloaded& most) const;
  // Returns true if these need as much memory as a measured run that had too little.
  [[nodiscard]] bool HasFailedBelow(const ParallelPlan& plan, const MostOffloaded& most) const;

  // Bounds the same plans however they also share out the experts and order the ranks.
  std::optional<Seconds> LeastTimeOfAnyExperts(const ParallelPlan& plan);

  // Bounds plans that also share the schedule and the split of layers.
  Seconds LeastTimeOfPipeline(const ParallelPlan& plan);

 private:
  // Returns the finest stage of ZeRO that is allowed with the plan's pipeline.
  [[nodiscard]] int FinestZeroStage(const ParallelPlan& plan) const;
  [[nodiscard]] Bytes LeastMean(const ParallelPlan& plan, int zero_stage, const MostOffloaded& most,
                                StageDevices devices) const;
  Seconds StepWith(const ParallelPlan& plan, Seconds pipeline);
  Seconds StepWithEvenWork(const ParallelPlan& plan, Seconds whole_model);

  AnalyticModel& model_;
};

}  // namespace meshwright

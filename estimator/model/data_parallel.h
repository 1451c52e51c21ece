#pragma once

#include "estimator/model/memory.h"
#include "estimator/model/stage.h"
#include "estimator/pipeline/pipeline.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns where the ranks lie that share the states of a stage.
DataGroups PlaceDataGroups(const StageDevices& devices);

// Returns how the plan divides the states of a stage.
StateSharding StateShardingOf(const ParallelPlan& plan, const StageDevices& devices);

// The time of a step on a stage after its pipeline.
struct StepTail {
  Seconds communication = Seconds(0);  // exposed gradient reduction and parameter gathering
  Seconds optimizer = Seconds(0);
};

inline Seconds Sum(const StepTail& tail) { return tail.communication + tail.optimizer; }
inline StepTail Scaled(const StepTail& tail, double ratio) {
  return {.communication = ratio * tail.communication, .optimizer = ratio * tail.optimizer};
}

// Returns true if states on the host make the optimizer's step slower, as they do on all but the
// slowest memories.
bool OffloadCostsTime(const EstimatorProblem& problem);

// Prices what a step costs outside its pipeline: docs/cost_model/data_parallel.md "Data
// parallelism" (bucketing: PyTorch DDP, Li et al. 2020, arXiv 2006.15704; sharding: ZeRO, arXiv
// 1910.02054; FSDP, arXiv 2304.11277).
class TailModel {
 public:
  // The tails of stages on `devices`. `bytes` are the problem's; all referents outlive the model.
  TailModel(const StageDevices& devices, const StateBytes& bytes, const EstimatorProblem& problem);

  [[nodiscard]] StepTail Of(const Stage& stage, const StageTime& time,
                            const PipelineShape& shape) const;

 private:
  const StageDevices& devices_;
  DataGroups groups_;
  const StateBytes& bytes_;
  const EstimatorProblem& problem_;
};

}  // namespace meshwright

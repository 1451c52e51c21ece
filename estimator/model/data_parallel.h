#pragma once

#include "estimator/model/memory.h"
#include "estimator/model/stage.h"
#include "estimator/pipeline/pipeline.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Where the ranks lie that share the states of a stage.
DataGroups PlaceDataGroups(const StageDevices& devices);

// How the plan divides the states of a stage.
StateSharding ShardingOf(const ParallelPlan& plan, const StageDevices& devices);

// What a step costs on a stage outside its pipeline.
struct StepTail {
  Seconds communication = Seconds(0);  // exposed gradient reduction and parameter gathering
  Seconds optimizer = Seconds(0);
};

inline Seconds Sum(const StepTail& tail) { return tail.communication + tail.optimizer; }

// Whether states on the host make the optimizer's step slower, as they do on all but the slowest
// memories.
bool OffloadCostsTime(const EstimatorProblem& problem);

// docs/cost_model.md "Data parallelism" (bucketing: PyTorch DDP, Li et al. 2020, arXiv 2006.15704;
// sharding: ZeRO, arXiv 1910.02054; FSDP, arXiv 2304.11277).
// `shape` is of each direction, `bytes` are the problem's.
StepTail TailOf(const Stage& stage, const StageTime& time, const PipelineShape& shape,
                const StateBytes& bytes, const EstimatorProblem& problem);

}  // namespace meshwright

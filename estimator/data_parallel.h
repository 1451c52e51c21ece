#pragma once

#include "estimator/memory.h"
#include "estimator/pipeline.h"
#include "estimator/stage.h"

namespace meshwright {

// The ranks that hold copies of a stage's dense states, and those of its experts.
struct DataGroups {
  GroupShape dense = {};           // data x context parallel, inside one sharding group
  GroupShape dense_replicas = {};  // copies of a sharding group (HSDP); one rank when there is none
  GroupShape expert = {};
};

DataGroups PlaceDataGroups(const Stage& stage, const StateSharding& sharding);

// How the plan divides the states of a stage.
StateSharding ShardingOf(const ParallelPlan& plan, const Stage& stage);

// What a step costs on a stage outside its pipeline.
struct StepTail {
  Seconds communication = Seconds(0);  // exposed gradient reduction and parameter gathering
  Seconds optimizer = Seconds(0);
};

// Whether states on the host make the optimizer's step slower, as they do on all but the slowest
// memories.
bool OffloadCostsTime(const EstimatorProblem& problem);

// docs/cost_model.md "Data parallelism" (bucketing: PyTorch DDP, Li et al. 2020, arXiv 2006.15704;
// sharding: ZeRO, arXiv 1910.02054; FSDP, arXiv 2304.11277).
StepTail TailOf(const Stage& stage, const StageTime& time, const StateSharding& sharding,
                const PipelineShape& shape, const EstimatorProblem& problem);

}  // namespace meshwright

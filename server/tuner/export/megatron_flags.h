#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/text/flag_list.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The parts of the flags of Megatron-LM, from which its exporter and those of the frameworks that
// are built on it are made.

void AddMegatronTensorFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronPipelineFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronContextFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronExpertFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronBatchFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronShardingFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronOffloadFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronRecomputeFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronFullRecomputeFlags(const Problem& problem, const ParallelPlan& plan,
                                   FlagList& flags);
void AddMegatronModelFlags(const ModelSpec& model, const Workload& workload, FlagList& flags);
void AddMegatronRopeFlags(const ModelSpec& model, FlagList& flags);
void AddMegatronSequenceFlags(const Workload& workload, FlagList& flags);
void AddMegatronPrecisionFlags(const Workload& workload, FlagList& flags);
void AddMegatronOptimizerFlags(const Workload& workload, FlagList& flags);
void AddMegatronAttentionFlags(const Workload& workload, FlagList& flags);
void AddMegatronFusionFlags(const Workload& workload, FlagList& flags);

// Adds the parts from the tensor to the sharding flags: how a plan divides the job.
void AddMegatronLayoutFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
// Adds the parts from the model to the fusion flags: those of a job that no plan changes.
void AddMegatronJobFlags(const Problem& problem, FlagList& flags);

// Refuses models with another norm than LayerNorm or with an output layer of its own, which old
// versions do not have.
void RefuseOtherThanGpt(const ModelSpec& model, std::string_view framework, FlagList& flags);

// Returns the flags that a run of Megatron-LM needs beside those of the plan, among them those of
// the model for which a ModelSpec has no fact.
std::vector<std::string> MegatronLeftOut(const ModelSpec& model);

// Returns the facts of a model that versions without Megatron-Core's flags for them leave out, with
// their values; empty if it states none.
std::string StatedFacts(const ModelSpec& model);

// Returns the layers of each pipeline stage: the plan's or else the profile's split.
std::vector<int> StageLayers(const Problem& problem, const ParallelPlan& plan);

}  // namespace meshwright

#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/flag_list.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Returns flags of pretrain_gpt.py of Megatron-LM with Megatron-Core 0.12 and later. Names, choices
// and mutual exclusions are those of megatron/training/arguments.py (add_argument and
// validate_args). Settings that do not belong to a plan are left out: data, tokenizer, learning
// rate, checkpoints.
absl::StatusOr<std::string> ExportMegatronCore(const Problem& problem, const ParallelPlan& plan);

// Add the parts of the flags, in the order of the text.
void AddMegatronModelFlags(const ModelSpec& model, const Workload& workload, FlagList& flags);
void AddMegatronPipelineFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronRecomputeFlags(const Problem& problem, const ParallelPlan& plan, FlagList& flags);
void AddMegatronKernelFlags(const Problem& problem, FlagList& flags);

// Returns the layers of each pipeline stage: the plan's or else the profile's split.
std::vector<int> StageLayers(const Problem& problem, const ParallelPlan& plan);

}  // namespace meshwright

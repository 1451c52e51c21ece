#pragma once

#include "search_space/spec/plan.h"
#include "server/tuner/export/refusals.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// One function for each framework. It gets a plan without stages of their own shape, and refuses
// every field of the plan, the workload and the model that the framework cannot express; if it
// refuses any, the result is not used.

// Returns flags of pretrain_gpt.py of Megatron-LM with Megatron-Core 0.12 and later. Names, choices
// and mutual exclusions are those of megatron/training/arguments.py (add_argument and
// validate_args).
LaunchConfig ExportMegatronCore(const Problem& problem, const ParallelPlan& plan,
                                Refusals& refusals);

}  // namespace meshwright

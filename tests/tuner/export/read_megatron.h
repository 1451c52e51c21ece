#pragma once

#include <string>
#include <vector>

#include "search_space/spec/plan.h"
#include "server/tuner/question/launch_config.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Read the flags of Megatron-LM and of the frameworks that are built on it.
ParallelPlan ReadMegatron(const LaunchConfig& config, const Problem& problem);
ParallelPlan ReadMegatronDeepSpeed(const LaunchConfig& config, const Problem& problem);
ParallelPlan ReadFlagScale(const LaunchConfig& config, const Problem& problem);
ParallelPlan ReadMegatronBridge(const LaunchConfig& config, const Problem& problem);
ParallelPlan ReadNemo(const LaunchConfig& config, const Problem& problem);

// Returns the number after an option of a command, or 1.
int CommandNumber(const std::string& command, const std::string& option);

std::vector<int> EqualStages(int stages, int layers);

// Returns the recomputation of all `layers_per_stage`.
RecomputePlan EveryLayer(const ParallelPlan& plan);

}  // namespace meshwright

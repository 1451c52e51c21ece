#pragma once

#include <string>
#include <string_view>

#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The processes of a job, one for each device of the plan.
struct JobSize {
  int nodes = 1;
  int processes_per_node = 1;
};

JobSize JobSizeOf(const Problem& problem, const ParallelPlan& plan);

// Returns the number of devices that a plan uses.
int PlanDevices(const ParallelPlan& plan);

// Returns the environment that Megatron checks for when it starts, as the beginning of a command:
// tensor and context parallelism and overlapped collectives need one connection (before Blackwell),
// and its FSDP must not have just one (megatron/training/arguments.py).
std::string MegatronEnvironment(const ParallelPlan& plan);

// Returns the torchrun command that starts `program` on every node. Nodes meet at MASTER_ADDR,
// which the user sets.
std::string TorchrunCommand(const JobSize& size, std::string_view program);

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Equal nodes that follow one another in the ranks of a job.
struct NodeGroup {
  std::string pool = {};
  int node_count = 0;
  int devices_per_node = 0;
  bool operator==(const NodeGroup&) const = default;
};

// Returns the nodes of a plan with stages of their own shape, in the order of its pipeline.
// Neighbouring stages of one pool are one group.
std::vector<NodeGroup> NodeGroupsOf(const Problem& problem, const ParallelPlan& plan);

// The processes of a job, one for each device of the plan.
struct JobSize {
  int nodes = 1;
  int processes_per_node = 1;        // on every node, unless `sizes_differ`
  bool has_stages_on_pools = false;  // so that each node needs its rank
  bool sizes_differ = false;         // nodes of different pools have different numbers of processes
};

JobSize JobSizeOf(const Problem& problem, const ParallelPlan& plan);

// Returns the number of devices that a plan uses.
int PlanDevices(const ParallelPlan& plan);

// Returns the environment that Megatron checks for when it starts, as the beginning of a command:
// tensor and context parallelism and overlapped collectives need one connection (before Blackwell),
// and its FSDP must not have just one (megatron/training/arguments.py). For stages on several pools
// it also names the pools in the pipeline's order, which no flag does and the importer reads.
std::string MegatronEnvironment(const ParallelPlan& plan);

// Returns the torchrun command that starts `program` on every node. Nodes meet at MASTER_ADDR,
// which the user sets. If stages lie on the pools of a cluster, the user also sets NODE_RANK, and
// DEVICES_PER_NODE if it differs.
std::string TorchrunCommand(const JobSize& size, std::string_view program);

// Returns what each node has to set for the command of a plan with stages on several pools.
std::vector<std::string> NodeSettings(const std::vector<NodeGroup>& groups);

}  // namespace meshwright

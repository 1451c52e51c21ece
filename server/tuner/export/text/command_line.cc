#include "server/tuner/export/text/command_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "search_space/spec/cluster.h"
#include "search_space/spec/stage_places.h"

namespace meshwright {
namespace {

bool SizesDiffer(const std::vector<NodeGroup>& groups) {
  return std::ranges::any_of(groups, [&](const NodeGroup& group) {
    return group.devices_per_node != groups.front().devices_per_node;
  });
}

}  // namespace

std::vector<NodeGroup> NodeGroupsOf(const Problem& problem, const ParallelPlan& plan) {
  std::vector<NodeGroup> groups;
  for (const StagePlan& stage : plan.stages) {
    if (groups.empty() || groups.back().pool != stage.pool) {
      const auto pool = std::ranges::find(problem.cluster.pools, stage.pool, &NodePool::name);
      const bool is_known = pool != problem.cluster.pools.end();
      groups.push_back(
          {.pool = stage.pool, .devices_per_node = is_known ? pool->devices_per_node : 0});
    }
    groups.back().node_count += stage.node_count;
  }
  const bool has_parts = std::ranges::any_of(
      plan.stages, [](const StagePlan& stage) { return stage.device_count > 0; });
  if (!has_parts) return groups;
  // Parts of one node share it. Pools with parts are one stretch of the pipeline.
  std::map<std::string, int> nodes = PlaceStages(plan, problem.cluster).node_counts;
  for (NodeGroup& group : groups) group.node_count = nodes[group.pool];
  return groups;
}

JobSize JobSizeOf(const Problem& problem, const ParallelPlan& plan) {
  if (!plan.stages.empty()) {
    const std::vector<NodeGroup> groups = NodeGroupsOf(problem, plan);
    JobSize size = {.nodes = 0,
                    .processes_per_node = groups.front().devices_per_node,
                    .has_stages_on_pools = true,
                    .sizes_differ = SizesDiffer(groups)};
    for (const NodeGroup& group : groups) size.nodes += group.node_count;
    return size;
  }
  const int devices = PlanDevices(plan);
  const auto& pools = problem.cluster.pools;
  const int of_node = pools.empty() ? devices : pools.front().devices_per_node;
  const int processes = std::clamp(of_node, 1, devices);
  return {.nodes = (devices + processes - 1) / processes, .processes_per_node = processes};
}

int PlanDevices(const ParallelPlan& plan) {
  return plan.tensor_parallel * plan.context_parallel * plan.pipeline_parallel * plan.data_parallel;
}

std::string MegatronEnvironment(const ParallelPlan& plan) {
  std::string pools;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    if (i > 0 && plan.stages[i].pool == plan.stages[i - 1].pool) continue;
    pools += fmt::format("{}{}", pools.empty() ? "MESHWRIGHT_POOLS=" : ",", plan.stages[i].pool);
  }
  if (!pools.empty()) pools += ' ';
  return pools + (plan.zero_stage <= 1 ? "CUDA_DEVICE_MAX_CONNECTIONS=1 " : "");
}

std::string TorchrunCommand(const JobSize& size, std::string_view program) {
  if (size.has_stages_on_pools) {
    // A rendezvous numbers nodes as it likes, so that each is told its rank.
    const std::string processes =
        size.sizes_differ ? "$DEVICES_PER_NODE" : fmt::format("{}", size.processes_per_node);
    return fmt::format(
        "torchrun --nnodes {} --nproc-per-node {} --node-rank $NODE_RANK --master-addr "
        "$MASTER_ADDR --master-port 29500 {}",
        size.nodes, processes, program);
  }
  const std::string meeting =
      size.nodes == 1 ? "--standalone" : "--rdzv-backend c10d --rdzv-endpoint $MASTER_ADDR:29500";
  return fmt::format("torchrun --nnodes {} --nproc-per-node {} {} {}", size.nodes,
                     size.processes_per_node, meeting, program);
}

std::vector<std::string> NodeSettings(const std::vector<NodeGroup>& groups) {
  std::string ranks;
  std::string sizes;
  int first = 0;
  for (const NodeGroup& group : groups) {
    const int last = first + group.node_count - 1;
    const std::string range =
        first == last ? fmt::format("{}", first) : fmt::format("{} to {}", first, last);
    ranks += fmt::format("{}{} on {}", ranks.empty() ? "" : ", ", range, group.pool);
    sizes +=
        fmt::format("{}{} on {}", sizes.empty() ? "" : ", ", group.devices_per_node, group.pool);
    first = last + 1;
  }
  std::vector<std::string> settings = {"NODE_RANK of each node, in the pipeline's order: " + ranks,
                                       "MASTER_ADDR: the node of rank 0"};
  if (SizesDiffer(groups)) settings.push_back("DEVICES_PER_NODE: " + sizes);
  return settings;
}

}  // namespace meshwright

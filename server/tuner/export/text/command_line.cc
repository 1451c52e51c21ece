#include "server/tuner/export/text/command_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "search_space/spec/cluster.h"

namespace meshwright {

JobSize JobSizeOf(const Problem& problem, const ParallelPlan& plan) {
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
  return plan.zero_stage <= 1 ? "CUDA_DEVICE_MAX_CONNECTIONS=1 " : "";
}

std::string TorchrunCommand(const JobSize& size, std::string_view program) {
  const std::string meeting =
      size.nodes == 1 ? "--standalone" : "--rdzv-backend c10d --rdzv-endpoint $MASTER_ADDR:29500";
  return fmt::format("torchrun --nnodes {} --nproc-per-node {} {} {}", size.nodes,
                     size.processes_per_node, meeting, program);
}

}  // namespace meshwright

#include "estimator/model/pipeline_messages.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "estimator/model/stage.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/sharding.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"

namespace meshwright {
namespace {

int DeviceCountOf(const StageDevices& d) {
  return d.sharding.tensor_parallel * d.sharding.context_parallel * d.data_parallel;
}

double NodeCountOf(const StageDevices& d) {
  return static_cast<double>(DeviceCountOf(d)) / d.pool->devices_per_node;
}

// Returns the number of ranks that split a stage's message. Without sequence parallelism every
// tensor-parallel rank holds all of it, and sends all of it unless the framework splits it.
int MessageShards(const StageDevices& from, const EstimatorProblem& problem) {
  const bool splits = problem.profile.pipeline_sends_shards && !from.sharding.sequence_parallel;
  return splits ? from.sharding.tensor_parallel : 1;
}

// Puts a message that came in shards together again on every rank of `to`.
Seconds GatherShards(Bytes whole, int shards, const StageDevices& to,
                     const EstimatorProblem& problem) {
  if (shards == 1) return Seconds(0);
  return CollectiveTime(CollectiveKind::kAllGather, whole,
                        PlaceGroup(shards, 1, ScaleUpDeviceCount(*to.pool)), *to.pool,
                        problem.cluster.topology);
}

// To a neighbour on devices of the same kind.
Seconds MessageTime(const StageDevices& from, bool stages_name_pools,
                    const EstimatorProblem& problem) {
  // Stages that name their pools are whole nodes; otherwise one node may hold several.
  const int scale_up_devices = ScaleUpDeviceCount(*from.pool);
  const bool leaves_node = (stages_name_pools || from.pool->node_count > 1) &&
                           scale_up_devices < DeviceCount(*from.pool) &&
                           !PipelineStaysInNode(BlocksOf(from), scale_up_devices);
  const int shards = MessageShards(from, problem);
  const Bytes whole = from.unit->boundary;
  return PointToPointTime(Scale(whole, 1.0 / shards), leaves_node, *from.pool,
                          problem.cluster.topology) +
         GatherShards(whole, shards, from, problem);
}

Seconds InterPoolMessageTime(const StageDevices& from, const StageDevices& to,
                             const EstimatorProblem& problem) {
  const int shards = MessageShards(from, problem);
  const Bytes whole = from.unit->boundary;
  const Bytes all = Scale(whole, 1.0 / shards) * DeviceCountOf(from);
  return InterPoolTime(all, std::min(NodeCountOf(from), NodeCountOf(to)),
                       problem.cluster.inter_pool) +
         GatherShards(whole, std::min(shards, to.sharding.tensor_parallel), to, problem);
}

// Returns the messages between two stages, the later of which may be the first of the next chunks.
Hop HopBetween(const StageDevices& from, const StageDevices& to, const EstimatorProblem& problem) {
  const Seconds message = from.pool == to.pool ? MessageTime(from, true, problem)
                                               : InterPoolMessageTime(from, to, problem);
  return {.forward = message, .backward = message};
}

}  // namespace

PipelineMessages MessagesOf(const StageRuns& stages, const EstimatorProblem& problem) {
  PipelineMessages messages;
  if (stages.stage_count() == 1) return messages;
  if (!stages.stages_name_pools()) {
    messages.each = MessageTime(stages.devices().front(), false, problem);
    return messages;
  }
  std::vector<Hop>& hops = messages.hops;
  const std::span<const StageRun> runs = stages.runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const StageDevices& from = *runs[i].stage.devices;
    if (runs[i].count > 1) {
      hops.insert(hops.end(), static_cast<std::size_t>(runs[i].count - 1),
                  HopBetween(from, from, problem));
    }
    if (i + 1 < runs.size()) {
      hops.push_back(HopBetween(from, *runs[i + 1].stage.devices, problem));
    } else if (stages.virtual_stages() > 1) {
      hops.push_back(HopBetween(from, stages.devices().front(), problem));
    }
  }
  const Hop first = hops.front();
  const auto is_like_first = [&](const Hop& hop) { return hop == first; };
  if (first.forward == first.backward && std::ranges::all_of(hops, is_like_first)) {
    messages.each = first.forward;
    hops.clear();
  }
  return messages;
}

}  // namespace meshwright

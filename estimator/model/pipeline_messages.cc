#include "estimator/model/pipeline_messages.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

#include "estimator/model/stage.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/sharding.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/pool_links.h"

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

// To a neighbour of a plan for one pool.
Seconds MessageTime(const StageDevices& from, const EstimatorProblem& problem) {
  // One node may hold several stages.
  const int scale_up_devices = ScaleUpDeviceCount(*from.pool);
  const bool leaves_node = from.pool->node_count > 1 &&
                           scale_up_devices < DeviceCount(*from.pool) &&
                           !PipelineStaysInNode(BlocksOf(from), scale_up_devices);
  const int shards = MessageShards(from, problem);
  const Bytes whole = from.unit->boundary;
  return PointToPointTime(Scale(whole, 1.0 / shards), leaves_node, *from.pool,
                          problem.cluster.topology) +
         GatherShards(whole, shards, from, problem);
}

// Returns how many of `to` equal parts one of `from` equal parts overlaps at most.
int MostOverlaps(int from, int to) {
  const int period = from / std::gcd(from, to);  // after so many parts the edges meet again
  int most = 1;
  for (int i = 0; i < period; ++i) {
    const auto first = static_cast<std::int64_t>(i) * to / from;
    const auto end = (static_cast<std::int64_t>(i + 1) * to + from - 1) / from;
    most = std::max(most, static_cast<int>(end - first));
  }
  return most;
}

// The messages in which a stage sends one micro-batch to a neighbour.
struct Slices {
  Bytes all = {};   // of all ranks
  int in_turn = 1;  // most that one rank sends, one after the other
};

// Every rank sends to each rank of `to` the slice that both have: a part of the data and of the
// sequence. Ranks that hold the whole sequence of their part each need a copy of it.
Slices SlicesBetween(const StageDevices& from, const StageDevices& to,
                     const EstimatorProblem& problem) {
  const LayerSharding& a = from.sharding;
  const LayerSharding& b = to.sharding;
  const bool splits = MessageShards(from, problem) > 1 || MessageShards(to, problem) > 1;
  const auto parts = [&](const LayerSharding& s) {
    return s.context_parallel * (s.sequence_parallel || splits ? s.tensor_parallel : 1);
  };
  const bool copies = !splits && !b.sequence_parallel;
  const int senders = a.sequence_parallel ? 1 : a.tensor_parallel;  // ranks with the same part
  const int ranks_with_parts =
      from.data_parallel * a.context_parallel * (a.sequence_parallel ? a.tensor_parallel : 1);
  return {.all = from.unit->boundary * ranks_with_parts * (copies ? b.tensor_parallel : 1),
          .in_turn = MostOverlaps(from.data_parallel, to.data_parallel) *
                     MostOverlaps(parts(a), parts(b)) *
                     (copies ? (b.tensor_parallel + senders - 1) / senders : 1)};
}

// Returns the time in which all devices of two stages together send and receive `bytes`. On the way
// through the hosts they are copied into the memory of the one side and out of that of the other.
Seconds BetweenPools(Bytes bytes, const StageDevices& from, const StageDevices& to,
                     const PoolLink& link) {
  const Seconds time =
      InterPoolTime(bytes, std::min(NodeCountOf(from), NodeCountOf(to)), link.link);
  if (link.path == LinkPath::kDirect) return time;
  const auto copy = [&](const StageDevices& side) {
    return bytes / (side.pool->chip.host_link * DeviceCountOf(side));
  };
  return time + copy(from) + copy(to);
}

// Returns the time in which a stage sends a micro-batch to a neighbour. Slices of a rank go one
// after the other; all ranks of a node share its link.
Seconds SendTime(const StageDevices& from, const StageDevices& to,
                 const EstimatorProblem& problem) {
  const Slices slices = SlicesBetween(from, to, problem);
  const Seconds gather = GatherShards(to.unit->boundary, MessageShards(to, problem), to, problem);
  const int waits = slices.in_turn - 1;
  if (from.pool != to.pool) {
    const PoolLink link = LinkBetween(*from.pool, *to.pool, problem.cluster);
    return BetweenPools(slices.all, from, to, link) + waits * link.link.latency + gather;
  }
  // Stages that name their pools are whole nodes, or parts of one.
  const bool share_node = from.shared_node.has_value() && from.shared_node == to.shared_node;
  const bool leaves_node = !share_node && ScaleUpDeviceCount(*from.pool) < DeviceCount(*from.pool);
  const auto time = [&](Bytes bytes) {
    return PointToPointTime(bytes, leaves_node, *from.pool, problem.cluster.topology);
  };
  const int devices = std::min(DeviceCountOf(from), DeviceCountOf(to));
  return time(Scale(slices.all, 1.0 / devices)) + waits * time({}) + gather;
}

}  // namespace

// The later stage may be the first of the next chunks.
Hop HopBetween(const StageDevices& from, const StageDevices& to, const EstimatorProblem& problem) {
  return {.forward = SendTime(from, to, problem), .backward = SendTime(to, from, problem)};
}

PipelineMessages MessagesOf(const StageRuns& stages, const EstimatorProblem& problem) {
  PipelineMessages messages;
  if (stages.stage_count() == 1) return messages;
  if (!stages.stages_name_pools()) {
    messages.each = MessageTime(stages.devices().front(), problem);
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

Seconds TiedGradientsTime(const StageDevices& first, const StageDevices& last,
                          double bytes_per_parameter, const EstimatorProblem& problem) {
  if (!problem.model.tied_embeddings || first.pool == last.pool) return Seconds(0);
  // Each rank reduces its whole part with that of its partner in the other stage; in a ring of two
  // it sends half of it, and then half of the sum.
  const int pairs = std::max(DeviceCountOf(first), DeviceCountOf(last));
  const Bytes all = RoundedBytes(bytes_per_parameter * last.unit->vocabulary_parameters * pairs);
  const PoolLink link = LinkBetween(*first.pool, *last.pool, problem.cluster);
  return BetweenPools(all, first, last, link) + link.link.latency;
}

}  // namespace meshwright

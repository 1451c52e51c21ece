#include "search_space/spec/stage_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

namespace meshwright {
namespace {

// The most stages of a plan, those of each replica counted: they are placed one after the other.
constexpr std::int64_t kMaxPlacedStages = 200'000;

// The nodes of one pool, as stages take them.
struct TakenNodes {
  int count = 0;
  int free_devices = 0;  // of the last node
};

// Takes the devices of a stage; returns its node if it is a part of one.
std::optional<int> Take(const StagePlan& stage, int devices_per_node, TakenNodes& taken) {
  if (stage.device_count == 0) {
    taken.count += stage.node_count;
    taken.free_devices = 0;
    return std::nullopt;
  }
  if (taken.free_devices < stage.device_count) {
    ++taken.count;
    taken.free_devices = devices_per_node;
  }
  taken.free_devices -= stage.device_count;
  return taken.count - 1;
}

// Returns, for each stage but the first, whether it is in the node of the stage before.
std::vector<bool> SharesNodes(const std::vector<std::optional<int>>& nodes,
                              const std::vector<StagePlan>& stages) {
  std::vector<bool> shares;
  for (std::size_t i = 1; i < stages.size(); ++i) {
    shares.push_back(nodes[i].has_value() && nodes[i] == nodes[i - 1] &&
                     stages[i].pool == stages[i - 1].pool);
  }
  return shares;
}

// Returns the indices of groups in the canonical order, so that the order in which they are stated
// does not change their places.
std::vector<std::size_t> InOrder(const std::vector<ReplicaGroup>& groups) {
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {},
                           [&](std::size_t i) -> const ReplicaGroup& { return groups[i]; });
  return order;
}

}  // namespace

int DeviceCount(const StagePlan& stage, const NodePool& pool) {
  return stage.device_count > 0 ? stage.device_count : stage.node_count * pool.devices_per_node;
}

std::vector<ReplicaGroup> GroupsOf(const ParallelPlan& plan) {
  if (!plan.replica_groups.empty()) return plan.replica_groups;
  return {{.replica_count = 1, .stages = plan.stages}};
}

StagePlaces PlaceStages(const ParallelPlan& plan, const ClusterSpec& cluster) {
  StagePlaces places;
  std::map<std::string, TakenNodes> taken;
  const std::vector<ReplicaGroup> groups = GroupsOf(plan);
  places.shared_nodes.resize(groups.size());
  places.last_nodes.resize(groups.size());
  for (const std::size_t g : InOrder(groups)) {
    const ReplicaGroup& group = groups[g];
    std::vector<std::optional<int>> first;
    bool is_even = true;
    for (int replica = 0; replica < group.replica_count; ++replica) {
      std::vector<std::optional<int>> nodes;
      for (const StagePlan& stage : group.stages) {
        const auto pool = std::ranges::find(cluster.pools, stage.pool, &NodePool::name);
        const int devices = pool == cluster.pools.end() ? 1 : pool->devices_per_node;
        nodes.push_back(Take(stage, devices, taken[stage.pool]));
      }
      if (replica == 0) first = nodes;
      places.last_nodes[g] = nodes;
      is_even = is_even && SharesNodes(nodes, group.stages) == SharesNodes(first, group.stages);
    }
    if (!is_even) places.uneven_groups.push_back(g);
    places.shared_nodes[g] = std::move(first);
  }
  for (const auto& [pool, nodes] : taken) places.node_counts[pool] = nodes.count;
  return places;
}

std::vector<FieldViolation> CheckPlaces(const ParallelPlan& plan, const ClusterSpec& cluster,
                                        std::string_view prefix) {
  std::vector<FieldViolation> violations;
  const auto add = [&](std::string_view field, std::string description) {
    violations.push_back(
        {.field = fmt::format("{}.{}", prefix, field), .description = std::move(description)});
  };
  const bool has_groups = !plan.replica_groups.empty();
  const std::vector<ReplicaGroup> groups = GroupsOf(plan);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t i = 0; i < groups[g].stages.size(); ++i) {
      const StagePlan& stage = groups[g].stages[i];
      const auto pool = std::ranges::find(cluster.pools, stage.pool, &NodePool::name);
      if (pool == cluster.pools.end() || stage.device_count == 0) continue;
      if (stage.node_count == 1 && stage.device_count < pool->devices_per_node) continue;
      add(fmt::format("{}stages[{}].device_count",
                      has_groups ? fmt::format("replica_groups[{}].", g) : "", i),
          fmt::format(
              "{} of {} nodes; must be a part of one node of {} devices, or absent for whole "
              "nodes",
              stage.device_count, stage.node_count, pool->devices_per_node));
    }
  }
  if (!violations.empty()) return violations;
  std::int64_t stages = 0;  // each factor is at most 10^8, and the sum stops at the limit
  for (const ReplicaGroup& group : groups) {
    stages += std::int64_t{group.replica_count} * static_cast<std::int64_t>(group.stages.size());
    if (stages <= kMaxPlacedStages) continue;
    add("replica_groups", fmt::format("have more than {} stages, those of each replica counted; "
                                      "must be at most as many",
                                      kMaxPlacedStages));
    return violations;
  }
  const StagePlaces places = PlaceStages(plan, cluster);
  for (const std::size_t g : places.uneven_groups) {
    add(fmt::format("replica_groups[{}].replica_count", g),
        fmt::format(
            "{}; the stages of these replicas do not share nodes in the same way; state those "
            "that do as a group",
            groups[g].replica_count));
  }
  for (const auto& [name, nodes] : places.node_counts) {
    const auto pool = std::ranges::find(cluster.pools, name, &NodePool::name);
    if (pool == cluster.pools.end() || nodes <= pool->node_count) continue;
    add(has_groups ? "replica_groups" : "stages",
        fmt::format("use {} nodes of pool \"{}\"; it has {}", nodes, name, pool->node_count));
  }
  return violations;
}

}  // namespace meshwright

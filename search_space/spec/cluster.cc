#include "search_space/spec/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <utility>

#include "search_space/spec/limits.h"

namespace meshwright {
namespace {

// Sanity limits, far above any existing cluster; device counts stay inside int.
constexpr int kMaxNodes = 1'000'000;
constexpr int kMaxDevicesPerNode = 100'000;
constexpr int kMaxNics = 100'000;
constexpr std::int64_t kMaxDevices = 100'000'000;

constexpr std::string_view kReservedNames[] = {"slurm", "local", "kubernetes"};

// Checks only a stated device count: the default from the usual node is no claim about sharing.
void CheckPhysicalDevices(const NodePoolRequest& pool, std::string_view field,
                          LimitChecker& check) {
  if (!pool.physical_devices_per_node) return;
  if (!pool.devices_per_node) {
    check.Add(field, fmt::format("{}; must be absent without devices_per_node",
                                 *pool.physical_devices_per_node));
    return;
  }
  check.Range(field, *pool.physical_devices_per_node, 1, *pool.devices_per_node);
}

void CheckPool(const NodePoolRequest& pool, std::string_view path, LimitChecker& check) {
  const auto at = [&](std::string_view field) { return fmt::format("{}.{}", path, field); };
  const auto positive = [&](std::string_view field, double value) {
    check.Positive(at(field), value);
  };
  if (pool.chip.empty()) check.Missing(at("chip"));
  if (pool.node_count) {
    check.Range(at("node_count"), *pool.node_count, 1, kMaxNodes);
  } else {
    check.Missing(at("node_count"));
  }
  if (pool.devices_per_node) {
    check.Range(at("devices_per_node"), *pool.devices_per_node, 1, kMaxDevicesPerNode);
  }
  const auto& intra_bandwidth = pool.intra_node.bandwidth;
  if (intra_bandwidth) positive("intra_node.bandwidth_bytes_per_second", intra_bandwidth->rate);
  const InterNodeRequest& inter = pool.inter_node;
  if (inter.nic_count) check.Range(at("inter_node.nic_count"), *inter.nic_count, 0, kMaxNics);
  if (inter.nic_gigabits_per_second) {
    positive("inter_node.nic_gigabits_per_second", *inter.nic_gigabits_per_second);
  }
  if (inter.latency) check.AtLeast(at("inter_node.latency_seconds"), inter.latency->count(), 0);
  if (pool.memory_capacity && pool.memory_capacity->count <= 0) {
    check.Add(at("memory_capacity_bytes"),
              fmt::format("{}; must be > 0", pool.memory_capacity->count));
  }
  const HostRequest& host = pool.host;
  if (host.updated_parameters_per_second) {
    positive("host.updated_parameters_per_second", *host.updated_parameters_per_second);
  }
  if (host.numa_domain_count) {
    check.Range(at("host.numa_domain_count"), *host.numa_domain_count, 1, kMaxDevicesPerNode);
  }
  if (host.memory && host.memory->count <= 0) {
    check.Add(at("host.memory_bytes"), fmt::format("{}; must be > 0", host.memory->count));
  }
  if (host.link_bandwidth) {
    positive("host.link_bandwidth_bytes_per_second", host.link_bandwidth->rate);
  }
  if (pool.power_limit_watts) positive("power_limit_watts", *pool.power_limit_watts);
  CheckPhysicalDevices(pool, at("physical_devices_per_node"), check);
}

// Checks the names of pools, by which plans and answers refer to them.
void CheckPoolNames(const ClusterRequest& cluster, LimitChecker& check) {
  for (std::size_t i = 0; i < cluster.pools.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (cluster.pools[i].name != cluster.pools[j].name) continue;
      check.Add(fmt::format("pools[{}].name", i),
                fmt::format("\"{}\"; must differ from pools[{}].name", cluster.pools[i].name, j));
      break;
    }
  }
}

// Rejects sharing in mixed clusters, because we do not know which stages on different pools wait
// for which others.
void CheckSharingIsAlone(const ClusterRequest& cluster, LimitChecker& check) {
  if (cluster.pools.size() == 1) return;
  for (std::size_t i = 0; i < cluster.pools.size(); ++i) {
    const std::optional<int>& physical = cluster.pools[i].physical_devices_per_node;
    if (!physical) continue;
    check.Add(fmt::format("pools[{}].physical_devices_per_node", i),
              fmt::format("{}; must be absent in a cluster of {} pools", *physical,
                          cluster.pools.size()));
  }
}

// Checks that no link before `i` joins the same pools.
void CheckIsFirst(const ClusterRequest& cluster, std::size_t i, LimitChecker& check) {
  const PoolLinkRequest& link = cluster.pool_links[i];
  const auto values = [](const PoolLinkRequest& of) {
    return std::tie(of.bandwidth_per_node, of.latency, of.path);
  };
  for (std::size_t j = 0; j < i; ++j) {
    const PoolLinkRequest& other = cluster.pool_links[j];
    if (!((other.from == link.from && other.to == link.to) ||
          (other.from == link.to && other.to == link.from))) {
      continue;
    }
    check.Add(fmt::format("pool_links[{}]", i),
              fmt::format("\"{}\" and \"{}\"; pool_links[{}] has {} for this pair, and a pair has "
                          "one link for both directions",
                          link.from, link.to, j,
                          values(link) == values(other) ? "the same values" : "other values"));
    return;
  }
}

// Checks the links of pairs of pools; each pair has one link for both directions.
void CheckPoolLinks(const ClusterRequest& cluster, LimitChecker& check) {
  for (std::size_t i = 0; i < cluster.pool_links.size(); ++i) {
    const PoolLinkRequest& link = cluster.pool_links[i];
    const std::string at = fmt::format("pool_links[{}].", i);
    for (const auto& [field, name] : {std::pair("from", link.from), std::pair("to", link.to)}) {
      if (std::ranges::count(cluster.pools, name, &NodePoolRequest::name) > 0) continue;
      check.Add(at + field, fmt::format("\"{}\"; no pool of the cluster has this name", name));
    }
    if (link.from == link.to) {
      check.Add(at + "to", fmt::format("\"{}\"; must be another pool than from", link.to));
    }
    if (link.bandwidth_per_node) {
      check.Positive(at + "bandwidth_bytes_per_second_per_node", link.bandwidth_per_node->rate);
    }
    if (link.latency) check.AtLeast(at + "latency_seconds", link.latency->count(), 0);
    CheckIsFirst(cluster, i, check);
  }
}

void CheckDeviceCount(const ClusterRequest& cluster, LimitChecker& check) {
  std::int64_t devices = 0;
  for (const NodePoolRequest& pool : cluster.pools) {
    devices += std::int64_t{pool.node_count.value_or(0)} * pool.devices_per_node.value_or(1);
  }
  if (devices > kMaxDevices) {
    check.Add("pools", fmt::format("{} devices; must be <= {}", devices, kMaxDevices));
  }
}

}  // namespace

bool IsReservedClusterName(std::string_view name) {
  return std::ranges::count(kReservedNames, name) > 0;
}

std::vector<FieldViolation> Validate(const ClusterRequest& cluster, std::string_view prefix) {
  LimitChecker check(prefix);
  if (IsReservedClusterName(cluster.name)) {
    check.Add("name", fmt::format("{}; must be another name, because --cluster {} looks for one",
                                  cluster.name, cluster.name));
  }
  if (cluster.pools.empty()) check.Add("pools", "empty; must have at least one pool");
  for (std::size_t i = 0; i < cluster.pools.size(); ++i) {
    CheckPool(cluster.pools[i], fmt::format("pools[{}]", i), check);
  }
  CheckPoolNames(cluster, check);
  CheckSharingIsAlone(cluster, check);
  CheckPoolLinks(cluster, check);
  if (check.found_none()) CheckDeviceCount(cluster, check);
  const TopologyRequest& topology = cluster.topology;
  if (topology.nodes_per_segment) {
    check.Range("topology.nodes_per_segment", *topology.nodes_per_segment, 1, kMaxNodes);
  }
  if (topology.oversubscription_ratio) {
    check.AtLeast("topology.oversubscription_ratio", *topology.oversubscription_ratio, 1);
  }
  const InterPoolRequest& inter_pool = cluster.inter_pool;
  if (inter_pool.bandwidth_per_node) {
    check.Positive("inter_pool.bandwidth_bytes_per_second_per_node",
                   inter_pool.bandwidth_per_node->rate);
  }
  if (inter_pool.latency) {
    check.AtLeast("inter_pool.latency_seconds", inter_pool.latency->count(), 0);
  }
  return std::move(check).violations();
}

int DeviceCount(const NodePool& pool) { return pool.node_count * pool.devices_per_node; }

double DevicesPerPhysical(const NodePool& pool) {
  return static_cast<double>(pool.devices_per_node) /
         pool.physical_devices_per_node.value_or(pool.devices_per_node);
}

int ScaleUpDeviceCount(const NodePool& pool) {
  const int node = pool.devices_per_node;
  if (pool.chip.scale_up.domain_size <= pool.chip.usual_node.device_count) return node;
  int nodes = std::max(1, std::min(pool.node_count, pool.chip.scale_up.domain_size / node));
  while (pool.node_count % nodes != 0) --nodes;
  return nodes * node;
}

int DeviceCount(const ClusterSpec& cluster) {
  int count = 0;
  for (const NodePool& pool : cluster.pools) count += DeviceCount(pool);
  return count;
}

}  // namespace meshwright

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The cluster as the user stated it. Absent fields get the values of the chip's usual node.
struct IntraNodeRequest {
  std::optional<LinkKind> kind = {};
  std::optional<BytesPerSecond> bandwidth = {};  // per device and direction
  bool operator==(const IntraNodeRequest&) const = default;
};

struct InterNodeRequest {
  std::optional<LinkKind> kind = {};
  std::optional<int> nic_count = {};  // per node
  std::optional<double> nic_gigabits_per_second = {};
  std::optional<Seconds> latency = {};
  bool operator==(const InterNodeRequest&) const = default;
};

struct HostRequest {
  std::optional<double> updated_parameters_per_second = {};
  std::optional<int> numa_domain_count = {};
  std::optional<Bytes> memory = {};
  std::optional<BytesPerSecond> link_bandwidth = {};  // of a device, in each direction
  bool operator==(const HostRequest&) const = default;
};

struct NodePoolRequest {
  std::string name = {};
  std::string chip = {};  // id or alias
  std::optional<int> node_count = {};
  std::optional<int> devices_per_node = {};
  IntraNodeRequest intra_node = {};
  InterNodeRequest inter_node = {};
  std::optional<Bytes> memory_capacity = {};
  std::optional<double> power_limit_watts = {};
  std::optional<int> physical_devices_per_node = {};
  HostRequest host = {};
  bool operator==(const NodePoolRequest&) const = default;
};

struct TopologyRequest {
  std::optional<ClusterTopology> kind = {};
  std::optional<int> nodes_per_segment = {};
  std::optional<double> oversubscription_ratio = {};
  bool operator==(const TopologyRequest&) const = default;
};

struct InterPoolRequest {
  std::optional<BytesPerSecond> bandwidth_per_node = {};
  std::optional<Seconds> latency = {};
  bool operator==(const InterPoolRequest&) const = default;
};

// The link between two pools, in both directions. Absent fields get the values of InterPoolRequest.
struct PoolLinkRequest {
  std::string from = {};
  std::string to = {};
  std::optional<BytesPerSecond> bandwidth_per_node = {};
  std::optional<Seconds> latency = {};
  std::optional<LinkPath> path = {};  // absent: kHost between chips of different vendors
  bool operator==(const PoolLinkRequest&) const = default;
};

struct ClusterRequest {
  std::string name = {};
  std::vector<NodePoolRequest> pools = {};
  TopologyRequest topology = {};
  InterPoolRequest inter_pool = {};
  std::vector<PoolLinkRequest> pool_links = {};
  bool operator==(const ClusterRequest&) const = default;
};

// Returns true for the words `slurm`, `local` and `kubernetes`, which stand for places to look for
// a cluster and so name none.
bool IsReservedClusterName(std::string_view name);

// Checks the limits that need no catalogue; ResolveProblem (server/tuner) rejects unknown chips.
std::vector<FieldViolation> Validate(const ClusterRequest& cluster, std::string_view prefix);

// The network between the nodes of a pool.
struct InterNodeLink {
  LinkKind kind = LinkKind::kInfiniband;
  int nic_count = 8;                  // per node
  BytesPerSecond nic_bandwidth = {};  // one NIC, one direction
  Seconds latency = Seconds(40e-6);   // one message between two nodes inside a collective
  bool operator==(const InterNodeLink&) const = default;
};

// The host of a node, which updates the optimizer states that are offloaded to it. The devices of a
// pool's nodes all have equal hosts.
struct Host {
  // All processes of the node together have this rate: the slowest of three reports of nodes of
  // eight devices (1.8e9 to 4e9; docs/cost_model/data_parallel.md "Host").
  double updated_parameters_per_second = 1.8e9;
  int numa_domain_count = 2;         // a process updates with the share of its own domain
  std::optional<Bytes> memory = {};  // absent: not known
  bool operator==(const Host&) const = default;
};

struct NodePool {
  std::string name = {};
  ChipSpec chip = {};
  int node_count = 0;
  int devices_per_node = 0;
  ScaleUpLink intra_node = {};
  InterNodeLink inter_node = {};
  Bytes memory_capacity = {};
  double power_limit_watts = 0;  // 0: unknown
  // The number of physical devices if it is less than devices_per_node and they are shared (CPU
  // cores, time-sliced GPUs); absent: as many as devices_per_node.
  std::optional<int> physical_devices_per_node = {};
  Host host = {};
  bool operator==(const NodePool&) const = default;
};

struct Topology {
  ClusterTopology kind = ClusterTopology::kRailOptimized;
  int nodes_per_segment = 128;
  double oversubscription_ratio = 1.0;  // >= 1
  bool operator==(const Topology&) const = default;
};

// The link that carries traffic from one pool to another.
struct InterPoolLink {
  BytesPerSecond bandwidth_per_node = {};
  Seconds latency = Seconds(30e-6);
  bool operator==(const InterPoolLink&) const = default;
};

// A pair of pools whose link was stated.
struct PoolLink {
  std::string from = {};
  std::string to = {};
  InterPoolLink link = {};
  LinkPath path = LinkPath::kDirect;
  bool operator==(const PoolLink&) const = default;
};

struct ClusterSpec {
  std::string name = {};
  std::vector<NodePool> pools = {};
  Topology topology = {};
  InterPoolLink inter_pool = {};
  std::vector<PoolLink> pool_links = {};  // the other pairs have inter_pool and the usual path
  bool operator==(const ClusterSpec&) const = default;
};

int DeviceCount(const NodePool& pool);

// Returns how many devices share a physical one, at least 1. While all of them are busy, each is
// slower by this factor.
double DevicesPerPhysical(const NodePool& pool);

int DeviceCount(const ClusterSpec& cluster);

// Returns how many devices of the pool one scale-up fabric joins. They are the devices of a node.
// For chips whose fabric spans nodes by design (NVL72 racks, TPU pods), they are those of the
// largest number of whole nodes inside its domain that divides the pool evenly.
int ScaleUpDeviceCount(const NodePool& pool);

}  // namespace meshwright

#include "search_space/spec/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "search_space/base/status.h"
#include "search_space/base/units.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

ClusterRequest TwoPools() {
  return {.name = "mixed",
          .pools = {{.name = "a", .chip = "nvidia-a100-sxm4-80gb", .node_count = 8},
                    {.name = "b", .chip = "nvidia-h100-sxm5-80gb", .node_count = 4}}};
}

struct Case {
  std::string name = {};
  std::function<void(ClusterRequest&)> change = {};
  FieldViolation violation = {};
};

class ClusterLimitTest : public testing::TestWithParam<Case> {};

TEST_P(ClusterLimitTest, NamesFieldValueAndLimit) {
  ClusterRequest cluster = TwoPools();
  ASSERT_THAT(Validate(cluster, "cluster"), testing::IsEmpty());
  GetParam().change(cluster);
  EXPECT_THAT(Validate(cluster, "cluster"), testing::ElementsAre(GetParam().violation));
}

const Case kCases[] = {
    {"no_pools",
     [](ClusterRequest& c) { c.pools.clear(); },
     {"cluster.pools", "empty; must have at least one pool"}},
    {"same_name",
     [](ClusterRequest& c) { c.pools[1].name = "a"; },
     {"cluster.pools[1].name", "\"a\"; must differ from pools[0].name"}},
    {"no_chip",
     [](ClusterRequest& c) { c.pools[1].chip = ""; },
     {"cluster.pools[1].chip", "missing; required"}},
    {"no_nodes",
     [](ClusterRequest& c) { c.pools[0].node_count.reset(); },
     {"cluster.pools[0].node_count", "missing; required"}},
    {"nodes",
     [](ClusterRequest& c) { c.pools[0].node_count = 0; },
     {"cluster.pools[0].node_count", "0; must be >= 1"}},
    {"devices",
     [](ClusterRequest& c) { c.pools[0].devices_per_node = 0; },
     {"cluster.pools[0].devices_per_node", "0; must be >= 1"}},
    {"all_devices",
     [](ClusterRequest& c) {
       c.pools[0].node_count = 1'000'000;
       c.pools[0].devices_per_node = 1000;
     },
     {"cluster.pools", "1000000004 devices; must be <= 100000000"}},
    {"intra_bandwidth",
     [](ClusterRequest& c) { c.pools[0].intra_node.bandwidth = BytesPerSecond{0}; },
     {"cluster.pools[0].intra_node.bandwidth_bytes_per_second", "0; must be > 0"}},
    {"nics",
     [](ClusterRequest& c) { c.pools[0].inter_node.nic_count = -1; },
     {"cluster.pools[0].inter_node.nic_count", "-1; must be >= 0"}},
    {"nic_rate",
     [](ClusterRequest& c) { c.pools[0].inter_node.nic_gigabits_per_second = -200; },
     {"cluster.pools[0].inter_node.nic_gigabits_per_second", "-200; must be > 0"}},
    {"latency",
     [](ClusterRequest& c) { c.pools[0].inter_node.latency = Seconds(-1e-6); },
     {"cluster.pools[0].inter_node.latency_seconds", "-1e-06; must be >= 0"}},
    {"memory",
     [](ClusterRequest& c) { c.pools[0].memory_capacity = Bytes{0}; },
     {"cluster.pools[0].memory_capacity_bytes", "0; must be > 0"}},
    {"power",
     [](ClusterRequest& c) {
       c.pools[0].power_limit_watts = std::numeric_limits<double>::infinity();
     },
     {"cluster.pools[0].power_limit_watts", "inf; must be > 0"}},
    {"shared_in_mixed",
     [](ClusterRequest& c) {
       c.pools[1].devices_per_node = 8;
       c.pools[1].physical_devices_per_node = 4;
     },
     {"cluster.pools[1].physical_devices_per_node", "4; must be absent in a cluster of 2 pools"}},
    {"shared_by_more",
     [](ClusterRequest& c) {
       c.pools.pop_back();
       c.pools[0].devices_per_node = 4;
       c.pools[0].physical_devices_per_node = 8;
     },
     {"cluster.pools[0].physical_devices_per_node", "8; must be <= 4"}},
    {"shared_by_unknown",
     [](ClusterRequest& c) {
       c.pools.pop_back();
       c.pools[0].physical_devices_per_node = 4;
     },
     {"cluster.pools[0].physical_devices_per_node", "4; must be absent without devices_per_node"}},
    {"host_rate",
     [](ClusterRequest& c) { c.pools[0].host.updated_parameters_per_second = 0; },
     {"cluster.pools[0].host.updated_parameters_per_second", "0; must be > 0"}},
    {"host_link",
     [](ClusterRequest& c) { c.pools[0].host.link_bandwidth = BytesPerSecond{0}; },
     {"cluster.pools[0].host.link_bandwidth_bytes_per_second", "0; must be > 0"}},
    {"host_domains",
     [](ClusterRequest& c) { c.pools[0].host.numa_domain_count = 0; },
     {"cluster.pools[0].host.numa_domain_count", "0; must be >= 1"}},
    {"host_memory",
     [](ClusterRequest& c) { c.pools[0].host.memory = Bytes{0}; },
     {"cluster.pools[0].host.memory_bytes", "0; must be > 0"}},
    {"segment",
     [](ClusterRequest& c) { c.topology.nodes_per_segment = 0; },
     {"cluster.topology.nodes_per_segment", "0; must be >= 1"}},
    {"oversubscription",
     [](ClusterRequest& c) { c.topology.oversubscription_ratio = 0.5; },
     {"cluster.topology.oversubscription_ratio", "0.5; must be >= 1"}},
    {"inter_pool",
     [](ClusterRequest& c) { c.inter_pool.bandwidth_per_node = BytesPerSecond{0}; },
     {"cluster.inter_pool.bandwidth_bytes_per_second_per_node", "0; must be > 0"}},
};

INSTANTIATE_TEST_SUITE_P(All, ClusterLimitTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return test.param.name; });

TEST(ClusterLimitTest, OnePoolNeedsNoName) {
  const ClusterRequest cluster = {.pools = {{.chip = "x", .node_count = 1}}};
  EXPECT_THAT(Validate(cluster, "cluster"), testing::IsEmpty());
}

TEST(ClusterLimitTest, NamesEveryFieldAtOnce) {
  ClusterRequest cluster = TwoPools();
  cluster.pools[0].chip = "";
  cluster.pools[0].node_count = 0;
  cluster.pools[1].name = "a";
  cluster.pools[1].devices_per_node = 0;
  cluster.topology.oversubscription_ratio = 0;
  EXPECT_EQ(Validate(cluster, "cluster").size(), 5u);
}

struct ScaleUpCase {
  const char* name;
  int domain;      // number of devices of the chip's fabric
  int usual_node;  // number of devices of the chip's usual node
  int nodes;
  int devices;  // number of devices per node
  int expected;
};

// A fabric that spans nodes by design joins the largest number of whole nodes that divides the pool
// evenly. The fabric of a node stays in the node, even if a site's nodes hold fewer devices than
// usual.
const ScaleUpCase kScaleUpCases[] = {
    {"Node", 8, 8, 4, 8, 8},         {"SmallNodes", 8, 8, 4, 4, 4},
    {"RackOf72", 72, 4, 18, 4, 72},  {"HalfARack", 72, 4, 8, 4, 32},
    {"FourRacks", 72, 4, 64, 4, 64}, {"PodOf256", 256, 8, 64, 8, 256},
    {"OddNodes", 72, 4, 19, 4, 4},
};

class ScaleUpTest : public testing::TestWithParam<ScaleUpCase> {};

TEST_P(ScaleUpTest, Devices) {
  const ScaleUpCase& c = GetParam();
  NodePool pool = {.node_count = c.nodes, .devices_per_node = c.devices};
  pool.chip.scale_up.domain_size = c.domain;
  pool.chip.usual_node.device_count = c.usual_node;
  EXPECT_EQ(ScaleUpDeviceCount(pool), c.expected);
}

INSTANTIATE_TEST_SUITE_P(All, ScaleUpTest, testing::ValuesIn(kScaleUpCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(DeviceCountTest, SumsThePools) {
  const NodePool eight_nodes = {.node_count = 8, .devices_per_node = 8};
  const NodePool three_nodes = {.node_count = 3, .devices_per_node = 16};
  EXPECT_EQ(DeviceCount(three_nodes), 48);
  EXPECT_EQ(DeviceCount(ClusterSpec{.pools = {eight_nodes, three_nodes}}), 112);  // 64 + 48
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

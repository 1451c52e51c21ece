#include "estimator/terms/collective.h"

#include <gtest/gtest.h>

#include <cmath>
#include <ostream>
#include <string>

#include "estimator/terms/kernel.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "tests/estimator/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr Bytes kGigabyte = {1'000'000'000};

struct Case {
  const char* name;
  CollectiveKind kind;
  Bytes bytes;
  GroupShape shape;
  double expected_seconds;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

// PlainPool: 300 GB/s switched, so a bus bandwidth of 0.75 * 300 = 225 GB/s; 25 GB/s a NIC, of
// which rings and trees get 0.95: 23.75 GB/s, and exchanges 0.78: 19.5 GB/s; 40 us for a step of a
// ring between nodes of eight, so u = 40 / 37.8 and 14 u = 14.8148 us for one between nodes of one;
// 8.4 u = 8.8889 us to start. In the node alpha = 2 us * n + 5 us, x0 = 4.4 MB
// (docs/cost_model/collectives.md).
const Case kCases[] = {
    {"GroupOfOne", CollectiveKind::kAllReduce, kGigabyte, {1, 1}, 0},
    {"NoBytes", CollectiveKind::kAllGather, {0}, {8, 4}, 0},
    // x = 3/4 GB; 13 us + (0.75e9 + sqrt(0.75e9 * 4.4e6)) / 225e9
    {"GatherInNode", CollectiveKind::kAllGather, kGigabyte, {4, 1}, 3.6016472e-3},
    {"ScatterInNode", CollectiveKind::kReduceScatter, kGigabyte, {4, 1}, 3.6016472e-3},
    // y = 2 * 3/4 GB; 8.8889 us + 6 * 14.8148 us + 1.5e9 / 23.75e9; a tree has 0.92 of that rate
    {"ReduceAcrossRing", CollectiveKind::kAllReduce, kGigabyte, {1, 4}, 63.255673e-3},
    // 1 kB: 8.8889 us + 2 * log2(4) * 14.8148 us + 63.16 ns / 0.92, against a ring of 97.84 us
    {"ReduceAcrossTree", CollectiveKind::kAllReduce, {1000}, {1, 4}, 68.216798e-6},
    // 8 in each of 8 nodes: 8.8889 us + 2 u (3 * 14 + 7 * 4) us + 2 * 63/64 * 125 / 21.85e9
    {"ReduceDeepTree", CollectiveKind::kAllReduce, {1000}, {8, 8}, 157.0483e-6},
    // 8 in each of 4 nodes: in the node 7/8 GB: 21 us + 0.93705e9 / 225e9 = 4.18566 ms; through a
    // NIC 31/32 of 1/8 GB: 8.8889 us + 3 * 40 us + 121.09e6 / 23.75e9, which is longer
    {"GatherTwoTiers", CollectiveKind::kAllGather, kGigabyte, {8, 4}, 5.2275731e-3},
    // All-to-all over 32 ranks: 24/32 GB leave through the NIC: 40 us + 20 us * log2(4) +
    // (0.75e9 + sqrt(0.75e9 * 3.8e6)) / 19.5e9 = 41.279 ms; 8/32 GB stay, 1.131 ms, hidden
    {"ExchangeTwoTiers", CollectiveKind::kAllToAll, kGigabyte, {8, 4}, 41.279251e-3},
};

class CollectiveTimeTest : public testing::TestWithParam<Case> {};

TEST_P(CollectiveTimeTest, ByHand) {
  const Case& c = GetParam();
  const double time = CollectiveTime(c.kind, c.bytes, c.shape, PlainPool(4), {}).count();
  EXPECT_NEAR(time, c.expected_seconds, 1e-6 * c.expected_seconds);
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveTimeTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

NodePool FittedPool() {
  NodePool pool = PlainPool(1);
  // The square-root fit of all-reduce over 8 A100 (data op_efficiency/fits.json).
  pool.chip.collectives = {{.kind = CollectiveKind::kAllReduce,
                            .ranks = 8,
                            .alpha = Seconds(21.27e-6),
                            .bandwidth = {231.3e9},
                            .half = {4'298'000}}};
  return pool;
}

// 512 MiB: x = 7/4 * 2^29 = 939,524,096; 21.27 us + (x + sqrt(x * 4.298e6)) / 231.3e9 = 4.35793 ms.
// That is a bus bandwidth of 215.6 GB/s; 222 were measured.
TEST(CollectiveTime, FitOfTheChip) {
  const double time =
      CollectiveTime(CollectiveKind::kAllReduce, {1 << 29}, {8, 1}, FittedPool(), {}).count();
  EXPECT_NEAR(time, 4.357932e-3, 1e-8);
  EXPECT_NEAR(939524096 / time, 222e9, 0.04 * 222e9);
}

// If a site's links run at half the chip's own rate, the fit's bulk time doubles.
TEST(CollectiveTime, FitFollowsTheSitesLink) {
  NodePool pool = FittedPool();
  pool.intra_node.bandwidth = {150e9};
  const double time =
      CollectiveTime(CollectiveKind::kAllReduce, {1 << 29}, {8, 1}, pool, {}).count();
  EXPECT_NEAR(time - 21.27e-6, 2 * (4.357932e-3 - 21.27e-6), 1e-8);
}

// On a full mesh of 7 x 28 GB/s a pair has one link: 0.7 * 28 = 19.6 GB/s; all eight have
// 137.2 GB/s (docs/cost_model/collectives.md; 910B measured 18.5 and 125.4).
//   2 ranks: 9 us + (1e9 + sqrt(1e9 * 4.4e6)) / 19.6e9 = 54.4137 ms
//   8 ranks: 21 us + (1.75e9 + sqrt(1.75e9 * 4.4e6)) / 137.2e9 = 13.4157 ms
TEST(CollectiveTime, FullMesh) {
  NodePool pool = PlainPool(1);
  pool.intra_node = {.bandwidth = {196e9}, .domain_size = 8, .topology = NodeTopology::kFullMesh};
  const auto time = [&](int ranks) {
    return CollectiveTime(CollectiveKind::kAllReduce, kGigabyte, {ranks, 1}, pool, {}).count();
  };
  EXPECT_NEAR(time(2), 54.4137e-3, 1e-7);
  EXPECT_NEAR(time(8), 13.4157e-3, 1e-7);
}

NodePool TorusPool(int nodes) {
  NodePool pool = PlainPool(nodes);
  pool.intra_node = {.bandwidth = {180e9}, .topology = NodeTopology::kTorus};
  pool.chip.usual_node.device_count = 8;
  pool.chip.scale_up = {.bandwidth = {180e9}, .domain_size = 256};
  return pool;
}

struct TorusCase {
  const char* name;
  int nodes;  // of 8 devices, all in one torus
  int ranks;
  double share;  // share of the links
};

void PrintTo(const TorusCase& c, std::ostream* out) { *out << c.name; }

// 16 x 16 devices: an axis of 16 has half of the links. 64 devices as 4 x 4 x 4: each axis has a
// third. Ranks have the share log2(ranks) / log2(devices) of the links, at least one of six.
const TorusCase kTorusCases[] = {
    {"OneAxisOfTwo", 32, 16, 1.0 / 2},    {"Whole", 32, 256, 1},
    {"AQuarterOfAnAxis", 32, 4, 2.0 / 8}, {"AxisAndAHalf", 32, 64, 6.0 / 8},
    {"NeverBelowALink", 32, 2, 1.0 / 6},  {"OneAxisOfThree", 8, 4, 1.0 / 3},
    {"TwoAxesOfThree", 8, 16, 2.0 / 3},
};

class TorusTest : public testing::TestWithParam<TorusCase> {};

// 0.75 * 180 = 135 GB/s of bus bandwidth over all links.
TEST_P(TorusTest, AGroupHasTheLinksOfItsAxes) {
  const TorusCase& c = GetParam();
  const double alpha = 2e-6 * c.ranks + 5e-6;
  const double x = (c.ranks - 1.0) / c.ranks * 1e9;
  const double time =
      CollectiveTime(CollectiveKind::kAllGather, kGigabyte, {c.ranks, 1}, TorusPool(c.nodes), {})
          .count();
  EXPECT_NEAR((x + std::sqrt(x * 4.4e6)) / (time - alpha), c.share * 135e9, 1);
}

INSTANTIATE_TEST_SUITE_P(All, TorusTest, testing::ValuesIn(kTorusCases),
                         [](const auto& test) { return std::string(test.param.name); });

struct ExchangeCase {
  const char* name;
  int nodes;  // of 8 devices, all in one torus
  std::optional<int> axes;
  int ranks;
  double load;  // times that a device's bytes go over the links of the busiest axis
};

void PrintTo(const ExchangeCase& c, std::ostream* out) { *out << c.name; }

// A whole axis of L devices carries L/4 times the bytes that a device sends, n devices in a line
// n/2 times.
const ExchangeCase kExchangeCases[] = {
    {"SquareWhole", 32, 2, 256, 16 / 4.0},       // 16 x 16
    {"SquareAxis", 32, 2, 16, 16 / 4.0},         //
    {"SquarePart", 32, 2, 4, 4 / 2.0},           // 4 of an axis
    {"SquareTwoNeighbours", 32, 2, 2, 1},        //
    {"SquareAxisAndPart", 32, 2, 64, 16 / 4.0},  // 16 x 4 of 16: 4 and 2
    {"OblongShortAxis", 4, 2, 4, 4 / 4.0},       // 8 x 4
    {"OblongLongAxis", 4, 2, 8, 8 / 4.0},        //
    {"OblongWhole", 4, 2, 32, 8 / 4.0},          //
    {"CubesShortAxis", 16, 3, 4, 4 / 4.0},       // 8 x 4 x 4
    {"CubesLongAxis", 16, 3, 8, 8 / 4.0},        //
    {"CubesTwoShortAxes", 16, 3, 16, 4 / 4.0},   //
    {"CubesTwoAxes", 16, 3, 32, 8 / 4.0},        //
    {"CubesOddSize", 16, 3, 6, 1},               // 4 and half an axis more
    {"NoNeighboursTwice", 1, 3, 8, 1},           // 2 x 2 x 2: one link to each
    {"ThreeAxesUnlessTold", 32, {}, 256, 2},     // 8 x 8 x 4
};

class ExchangeTest : public testing::TestWithParam<ExchangeCase> {};

// An axis has 1/d of the links, so an all-to-all of S takes load d S / links, and S is x n/(n-1).
TEST_P(ExchangeTest, MessagesPassThroughTheDevicesBetween) {
  const ExchangeCase& c = GetParam();
  NodePool pool = TorusPool(c.nodes);
  pool.chip.torus_axis_count = c.axes;
  const double time =
      CollectiveTime(CollectiveKind::kAllToAll, kGigabyte, {c.ranks, 1}, pool, {}).count();
  const double alpha = 2e-6 * c.ranks + 5e-6;
  const double x = (c.ranks - 1.0) / c.ranks * 1e9;
  const double share = (c.ranks - 1.0) / c.ranks / (c.axes.value_or(3) * c.load);
  EXPECT_NEAR((x + std::sqrt(x * 4.4e6)) / (time - alpha) / 135e9, share, 1e-9);
}

INSTANTIATE_TEST_SUITE_P(All, ExchangeTest, testing::ValuesIn(kExchangeCases),
                         [](const auto& test) { return std::string(test.param.name); });

// One of the four links of two axes.
TEST(CollectiveTime, TwoNeighboursOfTwoAxesHaveOneLinkOfFour) {
  NodePool pool = TorusPool(32);
  const auto time = [&pool] {
    return CollectiveTime(CollectiveKind::kAllGather, kGigabyte, {2, 1}, pool, {}).count() - 9e-6;
  };
  const double of_six = time();
  pool.chip.torus_axis_count = 2;
  EXPECT_NEAR(of_six / time(), 6.0 / 4, 1e-9);
}

// A bf16 array of 2048 x 8192 gathered over the axis of 4 of 32 TPU v5e took 680 us
// (jax-ml/scaling-book, sharding.md @04d8de5). Here a share of log(4) / log(32) = 0.4:
//   13 us + (25,165,824 + sqrt(25,165,824 * 4.4e6)) / 54e9 = 673.9 us; over a switch 277.4 us
TEST(CollectiveTime, TorusAgainstAMeasuredGather) {
  const double time =
      CollectiveTime(CollectiveKind::kAllGather, {33'554'432}, {4, 1}, TorusPool(4), {}).count();
  EXPECT_NEAR(time, 673.9e-6, 1e-7);
  EXPECT_NEAR(time, 680e-6, 0.05 * 680e-6);
}

// Part of a ring is a line, whose ends have one link instead of two.
TEST(CollectiveTime, PartOfARingHasOneOfTwoLinks) {
  NodePool pool = PlainPool(1);
  const auto time = [&pool](int ranks) {
    return CollectiveTime(CollectiveKind::kAllReduce, kGigabyte, {ranks, 1}, pool, {});
  };
  const Seconds switched_pair = time(2);
  const Seconds switched_all = time(8);
  pool.intra_node.topology = NodeTopology::kRing;
  const Seconds alpha(9e-6);  // 2 us * 2 + 5 us
  EXPECT_NEAR((time(2) - alpha) / (switched_pair - alpha), 2, 1e-9);
  EXPECT_EQ(time(8), switched_all);
  // All-to-all on a ring of n: n/4 times S over both links.
  const auto exchange =
      CollectiveTime(CollectiveKind::kAllToAll, kGigabyte, {8, 1}, pool, {}) - Seconds(21e-6);
  const double x = 7.0 / 8 * 1e9;
  EXPECT_NEAR(exchange.count(),
              (x + std::sqrt(x * 4.4e6)) / x * 2 * 1e9 / (0.75 * pool.intra_node.bandwidth.rate),
              1e-9);
}

// A group that spans more nodes than a segment pays the oversubscription, a smaller one does not.
TEST(CollectiveTime, Oversubscription) {
  const NodePool pool = PlainPool(256);
  const Topology topology = {.nodes_per_segment = 16, .oversubscription_ratio = 4};
  EXPECT_DOUBLE_EQ(NicShare(pool, topology, 16).rate, 25e9);
  EXPECT_DOUBLE_EQ(NicShare(pool, topology, 17).rate, 6.25e9);
  const auto time = [&](int nodes) {
    return CollectiveTime(CollectiveKind::kAllGather, kGigabyte, {1, nodes}, pool, topology);
  };
  EXPECT_GT(time(32), 3.5 * time(16));
}

// Four NICs of 25 GB/s for eight devices: 12.5 GB/s each.
TEST(CollectiveTime, DevicesShareTheNics) {
  NodePool pool = PlainPool(4);
  pool.inter_node.nic_count = 4;
  EXPECT_DOUBLE_EQ(NicShare(pool, {}, 2).rate, 12.5e9);
}

TEST(CollectiveTime, GrowsWithBytes) {
  const NodePool pool = PlainPool(16);
  for (const auto kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                          CollectiveKind::kReduceScatter, CollectiveKind::kAllToAll}) {
    for (const GroupShape shape : {GroupShape{2, 1}, GroupShape{8, 1}, GroupShape{8, 16}}) {
      Seconds last(0);
      for (std::int64_t bytes = 1; bytes < 20'000'000'000; bytes *= 10) {
        const Seconds time = CollectiveTime(kind, {bytes}, shape, pool, {});
        EXPECT_GT(time, last);
        last = time;
      }
    }
  }
}

// Each node more makes a gather and a scatter longer, and twice the nodes an all-reduce.
TEST(CollectiveTime, GrowsWithNodes) {
  const NodePool pool = PlainPool(16384);
  for (const auto kind :
       {CollectiveKind::kAllReduce, CollectiveKind::kAllGather, CollectiveKind::kReduceScatter}) {
    for (const int in_node : {1, 2, 8}) {
      for (const std::int64_t bytes : {1000, 1'000'000, 1'000'000'000}) {
        Seconds last(0);
        for (int nodes = 2; nodes <= 16384; nodes *= 2) {
          const GroupShape shape = {.in_node = in_node, .nodes = nodes};
          const Seconds time = CollectiveTime(kind, {bytes}, shape, pool, {});
          EXPECT_GT(time, last) << in_node << " in each of " << nodes;
          last = time;
        }
      }
    }
  }
}

struct MeasuredCase {
  const char* name;
  Bytes bytes;
  int nodes;
  double nic;      // bytes per second for each device
  double latency;  // seconds
  double measured_seconds;
};

void PrintTo(const MeasuredCase& c, std::ostream* out) { *out << c.name; }

// All-reduces of nodes of eight. SimAI: 2 * 511/512 * 16 GiB / 8 at 0.958 of 48.5 GB/s. EFA: B200,
// 400 Gb/s each. FlagPerf: a bus bandwidth of 45.1 GB/s on A100 with two NICs of 200 Gb/s a node,
// here of 4 GB.
const MeasuredCase kMeasuredCases[] = {
    {"Simai64Nodes", {17'179'869'184}, 64, 50e9, 40e-6, 92.26e-3},
    {"Efa4Nodes", {17'179'869'184}, 4, 50e9, 120e-6, 87.18e-3},
    {"Efa4NodesSmall", {1'048'576}, 4, 50e9, 120e-6, 378.3e-6},
    {"Flagperf2Nodes", {4'000'000'000}, 2, 6.25e9, 40e-6, 166.3e-3},
};

class CollectiveMeasuredTest : public testing::TestWithParam<MeasuredCase> {};

TEST_P(CollectiveMeasuredTest, Within10Percent) {
  const MeasuredCase& c = GetParam();
  NodePool pool = PlainPool(c.nodes);
  pool.chip.scale_up.bandwidth = pool.intra_node.bandwidth = {900e9};
  pool.inter_node.nic_bandwidth = {c.nic};
  pool.inter_node.latency = Seconds(c.latency);
  const GroupShape shape = {.in_node = 8, .nodes = c.nodes};
  const double time = CollectiveTime(CollectiveKind::kAllReduce, c.bytes, shape, pool, {}).count();
  EXPECT_NEAR(time, c.measured_seconds, 0.1 * c.measured_seconds);
}

INSTANTIATE_TEST_SUITE_P(All, CollectiveMeasuredTest, testing::ValuesIn(kMeasuredCases),
                         [](const auto& test) { return std::string(test.param.name); });

// 45 MB: in the node 10 us + 45e6 / 225e9 = 210 us; across 40 us + 45e6 / 19.5e9 = 2.347692 ms;
// to another pool 8 x 45 MB over the links of two nodes, 30 us + 360e6 / 50e9 = 7.23 ms.
TEST(PointToPointTime, ByHand) {
  const NodePool pool = PlainPool(4);
  const Bytes message = {45'000'000};
  EXPECT_NEAR(PointToPointTime(message, false, pool, {}).count(), 210e-6, 1e-12);
  EXPECT_NEAR(PointToPointTime(message, true, pool, {}).count(), 2.3476923e-3, 1e-9);
  const InterPoolLink link = {.bandwidth_per_node = {25e9}, .latency = Seconds(30e-6)};
  EXPECT_NEAR(InterPoolTime({8 * message.count}, 2, link).count(), 7.23e-3, 1e-12);
}

// Two fabrics of 16 nodes each are 32 nodes: beyond a segment of 16 they share its uplinks.
TEST(Collective, SegmentsCountNodesOfAFabric) {
  NodePool pool = PlainPool(32);
  pool.chip.usual_node.device_count = 8;
  pool.chip.scale_up.domain_size = 128;
  pool.inter_node.nic_bandwidth = {2.5e9};  // slower than the fabric
  const auto time = [&](int nodes_per_segment) {
    return CollectiveTime(CollectiveKind::kAllReduce, {1'000'000'000}, {.in_node = 128, .nodes = 2},
                          pool,
                          {.nodes_per_segment = nodes_per_segment, .oversubscription_ratio = 8});
  };
  EXPECT_GT(time(16), time(32));
}

// 16 shares of 10 MB around 16 ranks, 15 steps: over two nodes each step waits for the hop between
// them, 40 us + 10e6 / (0.78 x 25 GB/s); inside a node for 10 us + 10e6 / (0.75 x 300 GB/s).
TEST(Collective, RingGoesFromNeighbourToNeighbour) {
  const NodePool pool = PlainPool(2);
  const auto time = [&](const GroupShape& shape, std::int64_t bytes) {
    return CollectiveTime(CollectiveKind::kRing, {bytes}, shape, pool, {}).count();
  };
  EXPECT_NEAR(time({.in_node = 8, .nodes = 2}, 160'000'000), 15 * (40e-6 + 10e6 / 19.5e9), 1e-9);
  EXPECT_NEAR(time({.in_node = 8, .nodes = 1}, 80'000'000), 7 * (10e-6 + 10e6 / 225e9), 1e-9);
}

// Two NICs for eight devices: the hop of a ring of all eight has a whole NIC, one of a ring with
// two ranks in the node half of one.
TEST(Collective, HopsOfARingShareNics) {
  NodePool pool = PlainPool(2);
  pool.inter_node.nic_count = 2;
  const auto time = [&](const GroupShape& shape, std::int64_t bytes) {
    return CollectiveTime(CollectiveKind::kRing, {bytes}, shape, pool, {}).count();
  };
  EXPECT_NEAR(time({.in_node = 8, .nodes = 2}, 160'000'000), 15 * (40e-6 + 10e6 / 19.5e9), 1e-9);
  EXPECT_NEAR(time({.in_node = 2, .nodes = 2}, 40'000'000), 3 * (40e-6 + 10e6 / 9.75e9), 1e-9);
  pool.intra_node.bandwidth = {8e9};  // now a hop in the node is the slowest
  EXPECT_NEAR(time({.in_node = 2, .nodes = 2}, 40'000'000), 3 * (10e-6 + 10e6 / 6e9), 1e-9);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

#include "cli/detect/slurm_nodes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "search_space/base/units.h"
#include "tests/detect/recorded_tools.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Lines of `scontrol --oneliner show node` of Slurm 22.05, without the fields that are not read.
std::string Line(const std::string& name, const std::string& gres, const std::string& state,
                 const std::string& partitions) {
  return "NodeName=" + name + " Arch=x86_64 CPUTot=128 AvailableFeatures=ib Gres=" + gres +
         " OS=Linux 6.1.0-18-amd64 #1 SMP RealMemory=2063000 Sockets=2 State=" + state +
         " Partitions=" + partitions + "  Reason=Not responding [root@2026-01-01T00:00:00]\n";
}

constexpr char kTopology[] =
    "SwitchName=leaf1 Level=0 LinkSpeed=1 Nodes=n[1-2]\n"
    "SwitchName=leaf2 Level=0 LinkSpeed=1 Nodes=n3\n"
    "SwitchName=core Level=1 LinkSpeed=1 Nodes=n[1-3] Switches=leaf[1-2]\n";

CommandRunner Slurm(const std::string& nodes, const std::string& topology = "") {
  return Recorded({{"scontrol --oneliner show node", nodes}, {"scontrol show topology", topology}});
}

TEST(SlurmNodesTest, ReadsANode) {
  const auto nodes = ParseSlurmNodes(Line("n1", "gpu:h100:8(S:0,1),nic:2", "MIXED", "gpu,all"));
  EXPECT_THAT(nodes, ElementsAre(SlurmNode{.name = "n1",
                                           .state = "MIXED",
                                           .partitions = {"gpu", "all"},
                                           .devices = {{.chip = "h100", .devices = 8}},
                                           .memory = Bytes{std::int64_t{2063000} << 20}}));
  EXPECT_THAT(ParseSlurmNodes("\nslurm_load_node error\n"), IsEmpty());
}

TEST(SlurmNodesTest, ReadsGresWithoutAType) {
  const auto devices = [](const std::string& gres) {
    return ParseSlurmNodes(Line("n", gres, "IDLE", "p")).front().devices;
  };
  EXPECT_THAT(devices("gpu:8"), ElementsAre(NodeKind{.chip = "", .devices = 8}));
  EXPECT_THAT(devices("(null)"), IsEmpty());
  EXPECT_THAT(devices("npu:910B3:8,shard:16"),
              ElementsAre(NodeKind{.chip = "910B3", .devices = 8}));
  EXPECT_THAT(devices("gpu:-1"), IsEmpty());
  EXPECT_THAT(devices("gpu:4294967304"), IsEmpty());  // 2^32 + 8
}

TEST(SlurmNodesTest, KnowsOnWhichNodesNoJobStarts) {
  const auto is_usable = [](const char* state) { return IsUsable({.state = state}); };
  EXPECT_TRUE(is_usable("IDLE"));
  EXPECT_TRUE(is_usable("ALLOCATED"));
  EXPECT_TRUE(is_usable("MIXED+PLANNED"));
  EXPECT_TRUE(is_usable("IDLE+CLOUD+POWERED_DOWN"));  // wakes for a job
  EXPECT_FALSE(is_usable("DOWN*"));
  EXPECT_FALSE(is_usable("IDLE+DRAIN"));
  EXPECT_FALSE(is_usable("MIXED+DRAIN*"));
  EXPECT_FALSE(is_usable("UNKNOWN+DRAIN+INVALID_REG"));
}

TEST(SlurmNodesTest, ReadsLeafSwitchesOnly) {
  EXPECT_THAT(ParseSlurmTopology(kTopology),
              ElementsAre(SlurmSwitch{.name = "leaf1", .nodes = {"n1", "n2"}},
                          SlurmSwitch{.name = "leaf2", .nodes = {"n3"}}));
}

TEST(SlurmNodesTest, FindsEqualNodes) {
  const auto found = DetectSlurm(
      "", {},
      Slurm(Line("n1", "gpu:h100:8", "IDLE", "gpu") + Line("n2", "gpu:h100:8", "MIXED", "gpu") +
                Line("n3", "gpu:h100:8", "DOWN*", "gpu") + Line("login", "(null)", "IDLE", "all"),
            kTopology));
  ASSERT_TRUE(found.ok()) << found.status();
  ASSERT_EQ(found->cluster.pools.size(), 1u);
  const NodePoolRequest& pool = found->cluster.pools.front();
  EXPECT_EQ(pool.chip, "h100");
  EXPECT_EQ(pool.node_count, 2);
  EXPECT_EQ(pool.devices_per_node, 8);
  EXPECT_EQ(pool.host.memory, Bytes{std::int64_t{2063000} << 20});
  EXPECT_EQ(found->cluster.topology.nodes_per_segment, 2);
  EXPECT_THAT(found->notes, ElementsAre("Slurm has 2 nodes of 8 x h100.",
                                        "Left out, since no job can start there: n3 (DOWN*)."));
}

// Without the plugin topology/tree Slurm says nothing about switches.
TEST(SlurmNodesTest, LeavesOutTheSegmentsThatSlurmDoesNotKnow) {
  const auto found = DetectSlurm("", {}, Slurm(Line("n1", "gpu:h200:8", "IDLE", "gpu")));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_FALSE(found->cluster.topology.nodes_per_segment.has_value());
}

const std::string kTwoKinds = Line("n1", "gpu:h100:8", "IDLE", "new,all") +
                              Line("n2", "gpu:h100:8", "IDLE", "new,all") +
                              Line("n3", "gpu:a100:4", "IDLE", "old,all");

TEST(SlurmNodesTest, AsksForAPartitionOfSeveralKinds) {
  const absl::Status status = DetectSlurm("", {}, Slurm(kTwoKinds)).status();
  EXPECT_EQ(
      status.message(),
      "Slurm has several kinds of nodes: 1 nodes of 4 x a100 in all, old; 2 nodes of 8 x h100 "
      "in all, new. Name a partition of one kind, as in --cluster slurm:PARTITION");
  const auto found = DetectSlurm("new", {}, Slurm(kTwoKinds));
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(found->cluster.name, "Slurm partition new");
  EXPECT_EQ(found->cluster.pools.front().node_count, 2);
}

struct Refusal {
  const char* name;
  std::string nodes;
  const char* partition;
  const char* message;
};

class RefusalTest : public testing::TestWithParam<Refusal> {};

TEST_P(RefusalTest, SaysWhatToState) {
  const Refusal& c = GetParam();
  const absl::Status status = DetectSlurm(c.partition, {}, Slurm(c.nodes)).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr(c.message));
}

const Refusal kRefusals[] = {
    {"NoGres", Line("n1", "(null)", "IDLE", "cpu"), "",
     "Slurm has 1 nodes without accelerators (gres such as gpu:h100:8); must be stated by --chip "
     "and --devices-per-node"},
    {"NoType", Line("n1", "gpu:8", "IDLE", "gpu"), "",
     "Slurm does not say the type of its 8 devices a node (gres without a type); must be stated by "
     "--chip"},
    {"NoPartition", kTwoKinds, "none", "partition none has no node on which jobs can run"},
    {"AllDown", Line("n1", "gpu:h100:8", "DOWN", "gpu"), "",
     "Slurm has no node on which jobs can run; left out: n1 (DOWN)"},
    {"MixedNode", Line("n1", "gpu:a100:4,gpu:v100:4", "IDLE", "gpu"), "",
     "Slurm has nodes with several types of devices (n1); must have equal devices in a node"},
};

INSTANTIATE_TEST_SUITE_P(All, RefusalTest, testing::ValuesIn(kRefusals),
                         [](const auto& c) { return c.param.name; });

TEST(SlurmNodesTest, StatedFactsStandInForMissingOnes) {
  const auto untyped =
      DetectSlurm("", {.has_chip = true}, Slurm(Line("n1", "gpu:8", "IDLE", "gpu")));
  ASSERT_TRUE(untyped.ok()) << untyped.status();
  EXPECT_EQ(untyped->cluster.pools.front().devices_per_node, 8);
  const auto bare = DetectSlurm("", {.has_chip = true, .has_device_count = true},
                                Slurm(Line("n1", "(null)", "IDLE", "cpu")));
  ASSERT_TRUE(bare.ok()) << bare.status();
  EXPECT_EQ(bare->cluster.pools.front().node_count, 1);
  EXPECT_FALSE(bare->cluster.pools.front().devices_per_node.has_value());
}

TEST(SlurmNodesTest, SaysThatSlurmIsNotInstalled) {
  EXPECT_EQ(DetectSlurm("", {}, Recorded({})).status().message(),
            "scontrol is not installed on this machine");
}

TEST(SlurmNodesTest, PassesOnWhatAFailedCommandSaysLast) {
  const CommandRunner fails = [](const std::vector<std::string>&) -> absl::StatusOr<CommandOutput> {
    return CommandOutput{.exit_code = 1,
                         .err = "scontrol: error: Unknown host\nUnable to contact slurmctld\n\n"};
  };
  EXPECT_EQ(DetectSlurm("", {}, fails).status().message(),
            "scontrol --oneliner show node failed: Unable to contact slurmctld");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

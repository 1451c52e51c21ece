#include "cli/input/cluster_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "meshwright/v1/problem.pb.h"
#include "search_space/base/status.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;
using testing::IsEmpty;

TEST(ClusterFlagsTest, FactsTakeThePlaceOfAFile) {
  v1::Cluster cluster;
  std::vector<FieldViolation> violations;
  ReadCluster({.chip = "NVIDIA H100 80GB HBM3",
               .node_count = 32,
               .devices_per_node = 4,
               .nic_gigabits_per_second = 400},
              cluster, violations);
  EXPECT_THAT(violations, IsEmpty());
  EXPECT_EQ(cluster.name(), "32 nodes of NVIDIA H100 80GB HBM3");
  ASSERT_EQ(cluster.pools_size(), 1);
  EXPECT_EQ(cluster.pools(0).chip(), "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(cluster.pools(0).node_count(), 32);
  EXPECT_EQ(cluster.pools(0).devices_per_node(), 4);
  EXPECT_EQ(cluster.pools(0).inter_node().nic_gigabits_per_second(), 400);
}

TEST(ClusterFlagsTest, OneNodeIsNotCalledNodes) {
  v1::Cluster cluster;
  std::vector<FieldViolation> violations;
  ReadCluster({.chip = "H200", .node_count = 1}, cluster, violations);
  EXPECT_EQ(cluster.name(), "1 node of H200");
}

// A value that is not stated stays absent, so that the answer lists its default.
TEST(ClusterFlagsTest, FactsThatAreNotStatedStayAbsent) {
  v1::Cluster cluster;
  std::vector<FieldViolation> violations;
  ReadCluster({.chip = "H200", .node_count = 2}, cluster, violations);
  EXPECT_THAT(violations, IsEmpty());
  ASSERT_EQ(cluster.pools_size(), 1);
  EXPECT_FALSE(cluster.pools(0).has_devices_per_node());
  EXPECT_FALSE(cluster.pools(0).has_inter_node());
}

struct BadFlags {
  const char* name;
  ClusterFlags flags;
  const char* mistake;
};

class BadClusterFlagsTest : public testing::TestWithParam<BadFlags> {};

TEST_P(BadClusterFlagsTest, IsOneClearMistake) {
  v1::Cluster cluster;
  std::vector<FieldViolation> violations;
  ReadCluster(GetParam().flags, cluster, violations);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations.front().field, "cluster");
  EXPECT_EQ(violations.front().description, GetParam().mistake);
}

const BadFlags kBadFlags[] = {
    {"Nothing", {}, "missing; must be stated by --cluster, or by --chip and --nodes"},
    {"NoNodes",
     {.chip = "H100", .nic_gigabits_per_second = 200},
     "stated by --chip, --nic alone; must be stated by both --chip and --nodes"},
    {"NoChip",
     {.node_count = 8, .devices_per_node = 4},
     "stated by --nodes, --devices-per-node alone; must be stated by both --chip and --nodes"},
    {"BothWays",
     {.source = "c.json", .chip = "H100", .node_count = 8},
     "c.json; stated beside --chip, --nodes; must be one of the two: a file, or --chip and "
     "--nodes"},
};

INSTANTIATE_TEST_SUITE_P(All, BadClusterFlagsTest, testing::ValuesIn(kBadFlags),
                         [](const auto& c) { return c.param.name; });

TEST(ClusterFlagsTest, MistakesOfAFileAreListed) {
  const TemporaryFolder folder;
  v1::Cluster cluster;
  std::vector<FieldViolation> violations;
  ReadCluster({.source = folder.Write("c.json", R"({"pools": [{"chips": "H100"}]})")}, cluster,
              violations);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations.front().field, "cluster.pools[0].chips");
  EXPECT_THAT(violations.front().description, HasSubstr("chip"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

#include "search_space/spec/pool_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

ClusterRequest ThreePools() {
  return {.pools = {{.name = "a", .chip = "x", .node_count = 1},
                    {.name = "b", .chip = "x", .node_count = 1},
                    {.name = "c", .chip = "x", .node_count = 1}}};
}

TEST(PoolLinks, EveryMistakeIsNamedAtOnce) {
  ClusterRequest cluster = ThreePools();
  cluster.pool_links = {{.from = "a", .to = "b", .latency = Seconds(1e-5)},
                        {.from = "a", .to = "d", .bandwidth_per_node = BytesPerSecond{0}},
                        {.from = "c", .to = "c", .latency = Seconds(-1)},
                        {.from = "b", .to = "a", .latency = Seconds(1e-5)},
                        {.from = "b", .to = "a", .path = LinkPath::kHost}};
  const std::string pair = "\"b\" and \"a\"; pool_links[0] has ";
  const std::string rule = " for this pair, and a pair has one link for both directions";
  EXPECT_EQ(Validate(cluster, "cluster"),
            (std::vector<FieldViolation>{
                {"cluster.pool_links[1].to", "\"d\"; no pool of the cluster has this name"},
                {"cluster.pool_links[1].bandwidth_bytes_per_second_per_node", "0; must be > 0"},
                {"cluster.pool_links[2].to", "\"c\"; must be another pool than from"},
                {"cluster.pool_links[2].latency_seconds", "-1; must be >= 0"},
                {"cluster.pool_links[3]", pair + "the same values" + rule},
                {"cluster.pool_links[4]", pair + "other values" + rule}}));
}

// The pools "a" and "b" have chips of one vendor and "c" has another's. What a link leaves out, and
// the path of the pair b - c, which has no link of its own, are echoed.
TEST(PoolLinks, DefaultsAreEchoed) {
  ClusterSpec cluster = {.inter_pool = {.bandwidth_per_node = {25e9}, .latency = Seconds(3e-5)}};
  for (const char* name : {"a", "b", "c"}) {
    cluster.pools.push_back({.name = name});
    cluster.pools.back().chip.vendor = name == std::string("c") ? "other" : "one";
  }
  ClusterRequest stated = ThreePools();
  stated.pool_links = {{.from = "c", .to = "a", .bandwidth_per_node = BytesPerSecond{1e9}}};
  std::vector<AppliedDefault> applied;
  cluster.pool_links = ResolvePoolLinks(stated, cluster, applied);
  EXPECT_EQ(applied,
            (std::vector<AppliedDefault>{
                {"cluster.pool_links[0].latency_seconds", "3e-05", "cluster.inter_pool"},
                {"cluster.pool_links[0].path", "host", "chips of different vendors"},
                {"cluster.pool_links[b - c].path", "host", "chips of different vendors"}}));
  const auto between = [&](int a, int b) {
    return LinkBetween(cluster.pools[static_cast<std::size_t>(a)],
                       cluster.pools[static_cast<std::size_t>(b)], cluster);
  };
  const InterPoolLink own = {.bandwidth_per_node = {1e9}, .latency = Seconds(3e-5)};
  EXPECT_EQ(between(0, 2).link, own);
  EXPECT_EQ(between(2, 0).path, LinkPath::kHost);
  EXPECT_EQ(between(0, 1).link, cluster.inter_pool);
  EXPECT_EQ(between(0, 1).path, LinkPath::kDirect);
  EXPECT_EQ(between(1, 2).link, cluster.inter_pool);
  EXPECT_EQ(between(1, 2).path, LinkPath::kHost);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

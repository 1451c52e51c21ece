#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "estimator/model/data_parallel.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/sharding.h"
#include "search_space/spec/cluster.h"
#include "tests/estimator/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct GroupCase {
  const char* name;
  LayerSharding sharding;
  int data_parallel;
  StateSharding states;
  DataGroups expected;
};

void PrintTo(const GroupCase& c, std::ostream* out) { *out << c.name; }

const GroupCase kGroupCases[] = {
    {"DataAcrossNodes", {.tensor_parallel = 8}, 4, {}, {{1, 4}, {1, 1}, {8, 4}}},
    {"DataInNode", {.tensor_parallel = 2}, 4, {}, {{4, 1}, {1, 1}, {8, 1}}},
    // Context ranks hold copies of the same parameters.
    {"WithContext", {.tensor_parallel = 2, .context_parallel = 4}, 4, {}, {{4, 4}, {1, 1}, {8, 4}}},
    // 32 ranks, 8 experts apart: 4 copies, one in each node.
    {"Experts", {.expert_parallel = 8}, 32, {}, {{8, 4}, {1, 1}, {1, 4}}},
    // ZeRO shards inside a node of 8; there are 4 copies of the sharded states.
    {"Hybrid", {}, 32, {.zero_stage = 3, .dense_group = 8}, {{8, 1}, {1, 4}, {8, 4}}},
};

class DataGroupsTest : public testing::TestWithParam<GroupCase> {};

TEST_P(DataGroupsTest, Place) {
  const GroupCase& c = GetParam();
  const NodePool pool = PlainPool(4);
  const DataGroups groups = PlaceDataGroups({.pool = &pool,
                                             .sharding = c.sharding,
                                             .data_parallel = c.data_parallel,
                                             .states = c.states});
  EXPECT_EQ(groups.dense, c.expected.dense);
  EXPECT_EQ(groups.dense_replicas, c.expected.dense_replicas);
  EXPECT_EQ(groups.expert, c.expected.expert);
}

INSTANTIATE_TEST_SUITE_P(All, DataGroupsTest, testing::ValuesIn(kGroupCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

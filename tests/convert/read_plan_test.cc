#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "meshwright/v1/problem.pb.h"
#include "search_space/base/status.h"
#include "search_space/spec/plan.h"
#include "server/convert/message_reader.h"
#include "server/convert/read_wire.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// A stage with a `count` stands for equal neighbours, which answers list one by one.
TEST(ReadPlanTest, StagesWithACountAreListed) {
  v1::Plan wire;
  for (const int count : {3, 1}) {
    v1::StagePlan& stage = *wire.add_stages();
    stage.set_pool(count == 3 ? "a" : "b");
    stage.set_node_count(1);
    stage.set_tensor_parallel(4);
    stage.set_data_parallel(1);
    stage.set_layer_count(2);
    stage.set_micro_batch_size(1);
    stage.set_device_count(4);
    if (count > 1) stage.set_count(count);
  }
  *wire.add_replica_groups()->mutable_stages() = wire.stages();
  wire.mutable_replica_groups(0)->set_replica_count(2);
  wire.mutable_replica_groups(0)->set_micro_batch_count(8);
  std::vector<FieldViolation> found;
  const PlanRequest plan = ReadPlan(MessageReader(wire, "plan", found));
  EXPECT_TRUE(found.empty());
  const StagePlan a = {
      .pool = "a", .node_count = 1, .tensor_parallel = 4, .layer_count = 2, .device_count = 4};
  StagePlan b = a;
  b.pool = "b";
  EXPECT_EQ(plan.stages, (std::vector<StagePlan>{a, a, a, b}));
  EXPECT_EQ(plan.replica_groups.front().stages, plan.stages);
  wire.mutable_stages(1)->set_count(0);
  ReadPlan(MessageReader(wire, "plan", found));
  EXPECT_EQ(found, (std::vector<FieldViolation>{
                       {"plan.stages[1].count", "0; must be >= 1, and all stages at most 1000"}}));
}

// A few bytes must not take much memory.
TEST(ReadPlanTest, CountsAreBoundedTogether) {
  v1::Plan wire;
  for (int i = 0; i < 50; ++i) wire.add_stages()->set_count(300);
  std::vector<FieldViolation> found;
  EXPECT_EQ(ReadPlan(MessageReader(wire, "plan", found)).stages.size(), 900U);
  EXPECT_THAT(found,
              testing::Contains(FieldViolation{"plan.stages[3].count",
                                               "300; must be >= 1, and all stages at most 1000"}));

  v1::Plan groups;
  for (int i = 0; i < 50; ++i) groups.add_replica_groups()->add_stages()->set_count(300);
  found.clear();
  EXPECT_EQ(ReadPlan(MessageReader(groups, "plan", found)).replica_groups.size(), 4U);
  EXPECT_THAT(found, testing::Contains(
                         testing::Field(&FieldViolation::field, "plan.replica_groups[3].stages")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

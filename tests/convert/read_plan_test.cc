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
  EXPECT_EQ(found,
            (std::vector<FieldViolation>{{"plan.stages[1].count", "0; must be 1 .. 10000"}}));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

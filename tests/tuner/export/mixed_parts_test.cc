#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "estimator/legality/legality.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

Problem TwoPools() {
  Problem problem = Llama70b("flagscale", "0.9");
  problem.cluster.pools = {
      {.name = "nv", .chip = {.id = "a", .vendor = "V"}, .node_count = 8, .devices_per_node = 8},
      {.name = "ix", .chip = {.id = "b", .vendor = "W"}, .node_count = 8, .devices_per_node = 16}};
  problem.legality = LegalityRulesOf("flagscale", problem.workload.framework_version);
  return problem;
}

// Two stages in the one node of nv and four in the two nodes of ix: 2 x 20 + 4 x 10 = 80 layers.
TEST(MixedPartsTest, FlagScaleWithPartsOfNodes) {
  ParallelPlan plan = {.sequence_parallel = true, .pipeline_parallel = 6, .zero_stage = 1};
  const StagePlan nv = {.pool = "nv",
                        .node_count = 1,
                        .tensor_parallel = 4,
                        .layer_count = 20,
                        .micro_batch_size = 2,
                        .device_count = 4};
  const StagePlan ix = {.pool = "ix",
                        .node_count = 1,
                        .tensor_parallel = 4,
                        .data_parallel = 2,
                        .layer_count = 10,
                        .micro_batch_size = 1,
                        .device_count = 8};
  plan.stages = {nv, nv, ix, ix, ix, ix};
  const auto config = ExportPlan("flagscale", TwoPools(), plan);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->text, HasSubstr("hetero_process_meshes: [4, 1, 1, 1, 2, 4, 1, 1, 2, 4]\n"));
  EXPECT_THAT(config->other_files[0].text, HasSubstr("    nnodes: 3\n"));
  EXPECT_EQ(config->other_files[1].text,
            "<host-nv-1> slots=8 type=nv\n<host-ix-1> slots=16 type=ix\n"
            "<host-ix-2> slots=16 type=ix\n");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

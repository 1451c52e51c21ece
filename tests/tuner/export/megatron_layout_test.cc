#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// 94 layers, embedding and loss counted, on 8 x 4 chunks of 3: a published layout of Qwen3-235B.
TEST(MegatronLayoutTest, EmbeddingAndLossCountAsLayers) {
  Problem problem = Llama70b();
  problem.model.layer_count = 94;
  problem.workload.overlap.pipeline_p2p = true;
  ParallelPlan plan = {.tensor_parallel = 2,
                       .sequence_parallel = true,
                       .pipeline_parallel = 8,
                       .virtual_pipeline = 4,
                       .data_parallel = 8,
                       .zero_stage = 1,
                       .schedule = Schedule::kInterleaved1f1b,
                       .layers_per_stage = {11, 12, 12, 12, 12, 12, 12, 11}};
  EXPECT_THAT(Exported("megatron-core", problem, plan),
              HasSubstr("--num-virtual-stages-per-pipeline-rank 4 \\\n"
                        "--account-for-embedding-in-pipeline-split \\\n"
                        "--account-for-loss-in-pipeline-split"));

  problem.model.layer_count = 20;
  plan.pipeline_parallel = 4;
  plan.virtual_pipeline = 2;
  plan.layers_per_stage = {5, 5, 5, 5};
  EXPECT_THAT(Exported("megatron-core", problem, plan),
              HasSubstr("--pipeline-model-parallel-layout "
                        "'Et*3|t*3|t*3|t*3|t*2|t*2|t*2|t*2L'"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

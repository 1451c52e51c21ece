#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/tuner/export/problems.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// A job that routed by softmax without groups would train another model.
TEST(MegatronModelTest, RoutesAndStretchesAsTheModelStates) {
  Problem problem = DeepseekProblem();
  problem.model.moe->router_score = RouterScore::kSigmoid;
  problem.model.moe->group_count = 8;
  problem.model.moe->groups_per_token = 4;
  problem.model.moe->routed_scaling_factor = 2.5;
  problem.model.moe->router_bias = true;
  problem.model.rope_scaling = RopeScaling{.factor = 40,
                                           .original_position_count = 4096,
                                           .beta_fast = 32,
                                           .mscale = 1,
                                           .mscale_all_dim = 0.5};
  const auto config = ExportPlan("megatron-core", problem, {.data_parallel = 8});
  ASSERT_TRUE(config.ok()) << config.status();
  for (const char* flag :
       {"--moe-router-score-function sigmoid \\\n", "--moe-router-num-groups 8 \\\n",
        "--moe-router-group-topk 4 \\\n", "--moe-router-topk-scaling-factor 2.5 \\\n",
        "--moe-router-enable-expert-bias \\\n", "--rope-type yarn \\\n",
        "--rotary-scaling-factor 40 \\\n", "--mscale 1 \\\n", "--mscale-all-dim 0.5 \\\n"}) {
    EXPECT_THAT(config->text, HasSubstr(flag));
  }
  EXPECT_THAT(config->left_out,
              testing::Contains("of the model, without a flag: original_max_position_embeddings = "
                                "4096, beta_fast = 32"));
  EXPECT_THAT(config->left_out,
              testing::Contains("of the router: --moe-router-load-balancing-type, "
                                "--moe-aux-loss-coeff, --moe-router-bias-update-rate"));
  problem.model.moe->router_score = RouterScore::kSoftmax;
  EXPECT_THAT(Exported("megatron-core", problem, {.data_parallel = 8}),
              HasSubstr("model.moe.router_bias = true with softmax; must be with sigmoid"));
}

// Llama 3.1's scaling has flags for attention without latents.
TEST(MegatronModelTest, StretchesAsLlama31) {
  Problem problem = Llama70b();
  problem.model.rope_scaling = RopeScaling{.kind = RopeScalingKind::kLlama3, .factor = 8};
  EXPECT_THAT(Exported("megatron-core", problem, DensePlan()),
              HasSubstr("--use-rope-scaling \\\n--rope-scaling-factor 8 \\\n"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

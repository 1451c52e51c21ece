#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/export.h"
#include "server/tuner/question/problem.h"
#include "tests/search_space/models.h"
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

// Returns Mixtral's sizes with what the layers of gpt-oss have.
Problem GptOssProblem(const std::string& version) {
  Problem problem = Llama70b("megatron-core", version);
  ModelSpec& model = problem.model;
  model = Mixtral_8x7b();
  model.mlp = MlpKind::kQuickGeglu;
  model.biases = LinearBiases::kAll;
  model.attention_sinks = true;
  model.glu_offset = 1;
  model.activation_clamp = 7;
  const LayerKind experts = {.feed_forward = FeedForwardKind::kExperts};
  model.layers = {{.count = 1, .kind = experts}, {.count = 1, .kind = experts}};
  model.layers.front().kind.sliding_window = 128;
  model.rope_scaling = RopeScaling{.factor = 32, .original_position_count = 4096};
  problem.workload.attention_kernel = AttentionKernel::kCudnn;
  problem.workload.grouped_gemm = true;
  return problem;
}

// A job with --swiglu and --disable-bias-linear would train another model.
TEST(MegatronModelTest, GptOssHasItsFlagsAndNoOthers) {
  const ParallelPlan plan = {.data_parallel = 128, .expert_parallel = 8, .zero_stage = 1};
  const auto config = ExportPlan("megatron-core", GptOssProblem("0.15"), plan);
  ASSERT_TRUE(config.ok()) << config.status();
  for (const char* flag :
       {"--quick-geglu \\\n", "--glu-linear-offset 1 \\\n", "--activation-func-clamp-value 7 \\\n",
        "--softmax-type learnable \\\n", "--no-bias-dropout-fusion \\\n",
        "--window-size 127,0 \\\n", "--window-attn-skip-freq 2 \\\n"}) {
    EXPECT_THAT(config->text, HasSubstr(flag));
  }
  for (const char* flag : {"--swiglu", "--disable-bias-linear", "--add-qkv-bias"}) {
    EXPECT_THAT(config->text, testing::Not(HasSubstr(flag)));
  }
  EXPECT_THAT(config->left_out,
              testing::Contains(HasSubstr("without a flag: yarn rope scaling by 32")));
  for (const std::string& left_out : config->left_out) {
    EXPECT_THAT(left_out, testing::Not(HasSubstr("gpt-oss")));
  }
}

TEST(MegatronModelTest, GptOssNeedsTheRelease) {
  const ParallelPlan plan = {.data_parallel = 128, .expert_parallel = 8, .zero_stage = 1};
  const std::string older = Exported("megatron-core", GptOssProblem("0.14"), plan);
  EXPECT_THAT(older,
              HasSubstr("0.14; Megatron-Core has windows in some layers, sinks of attention, "
                        "biases of experts, an offset and a limit of the gate only from "
                        "0.15 on"));
  Problem scaled = Llama70b();
  scaled.model.attention_scale = 0.0625;
  scaled.model.embedding_scale = 12;
  const auto config = ExportPlan("megatron-core", scaled, DensePlan());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_THAT(config->left_out, testing::Contains("of the model, without a flag: attention_scale = "
                                                  "0.0625, embedding_scale = 12"));
}

struct BiasCase {
  LinearBiases biases;
  std::string shown;
};

TEST(MegatronModelTest, BiasesAreThoseOfTheModel) {
  const BiasCase cases[] = {
      {LinearBiases::kNone, "--disable-bias-linear"},
      {LinearBiases::kQkv, "--add-qkv-bias"},
      {LinearBiases::kAttention, "model.biases = attention; Megatron-Core has biases of all"},
      {LinearBiases::kFeedForward, "model.biases = feed_forward; Megatron-Core has biases of all"}};
  for (const BiasCase& one : cases) {
    for (const NormKind norm : {NormKind::kRmsnorm, NormKind::kLayernorm}) {
      Problem problem = Llama70b();
      problem.model.norm = norm;
      SetBiases(one.biases, problem.model);
      EXPECT_THAT(Exported("megatron-core", problem, DensePlan()), HasSubstr(one.shown));
    }
  }
  Problem all = Llama70b();
  SetBiases(LinearBiases::kAll, all.model);
  EXPECT_THAT(Exported("megatron-core", all, DensePlan()),
              testing::Not(HasSubstr("--disable-bias-linear")));
}

struct FormCase {
  std::string name;
  std::function<void(Problem&, ParallelPlan&)> change;
  std::string expected;  // in the error
};

const FormCase kForms[] = {
    {"relu", [](Problem& p, ParallelPlan&) { p.model.mlp = MlpKind::kRelu; },
     "model.mlp = relu; Megatron-Core has gelu, swiglu, quick_geglu and squared_relu"},
    {"swiglu_with_a_limit", [](Problem& p, ParallelPlan&) { p.model.activation_clamp = 10; },
     "model.activation_clamp = 10 with swiglu; Megatron-Core has it with quick_geglu only"},
    {"swiglu_with_an_offset", [](Problem& p, ParallelPlan&) { p.model.glu_offset = 1; },
     "model.glu_offset = 1 with swiglu; Megatron-Core has it with quick_geglu only"},
    {"post_norms", [](Problem& p, ParallelPlan&) { p.model.post_norms = true; },
     "model.post_norms = true"},
    {"only_post_norms",
     [](Problem& p, ParallelPlan&) {
       p.model.post_norms = true;
       p.model.pre_norms = false;
     },
     "model.pre_norms = false; Megatron-Core has norms before"},
    {"norms_of_all_heads",
     [](Problem& p, ParallelPlan&) { p.model.qk_norm = p.model.qk_norm_spans_heads = true; },
     "model.qk_norm_spans_heads = true; Megatron-Core's --qk-layernorm has a norm of each head"},
    {"parallel_feed_forward",
     [](Problem& p, ParallelPlan&) { p.model.parallel_feed_forward = true; },
     "model.parallel_feed_forward = true"},
    {"soft_caps",
     [](Problem& p, ParallelPlan&) {
       p.model.attention_soft_cap = 50;
       p.model.output_soft_cap = 30;
     },
     "model.attention_soft_cap = 50; Megatron-Core does not bound the scores of attention; "
     "model.output_soft_cap = 30; Megatron-Core does not bound the logits"},
};

TEST(MegatronModelTest, OtherFormsAreRefused) {
  for (const FormCase& one : kForms) {
    SCOPED_TRACE(one.name);
    Problem problem = Llama70b();
    ParallelPlan plan = DensePlan();
    one.change(problem, plan);
    EXPECT_THAT(Exported("megatron-core", problem, plan), HasSubstr(one.expected));
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

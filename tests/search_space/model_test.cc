#include "search_space/spec/model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

struct CountCase {
  std::string name = {};
  ModelSpec model = {};
  std::int64_t total = 0;
  std::int64_t active = 0;
};

class ParameterCountTest : public testing::TestWithParam<CountCase> {};

TEST_P(ParameterCountTest, EqualsThePublicTotal) {
  EXPECT_EQ(ParameterCount(GetParam().model, false), GetParam().total);
  EXPECT_EQ(ParameterCount(GetParam().model, true), GetParam().active);
}

ModelSpec WithMtp(ModelSpec model) {
  model.mtp_layer_count = 1;
  return model;
}

// One small layer with every kind of term: h 4, f 8, 2 heads of 3 (q 6), 1 KV head (u 3), V 10.
ModelSpec Tiny(MlpKind mlp, NormKind norm, bool tied) {
  return {.layer_count = 1,
          .hidden_size = 4,
          .ffn_hidden_size = 8,
          .attention_head_count = 2,
          .kv_head_count = 1,
          .head_dim = 3,
          .vocab_size = 10,
          .mlp = mlp,
          .norm = norm,
          .tied_embeddings = tied};
}

// MLA with one small layer: h 4, 2 heads, r_kv 5, g 3, g_r 2, g_v 4.
ModelSpec TinyMla(int q_lora_rank) {
  ModelSpec model = Tiny(MlpKind::kSwiglu, NormKind::kRmsnorm, true);
  model.mla = MlaSpec{.q_lora_rank = q_lora_rank,
                      .kv_lora_rank = 5,
                      .qk_nope_head_dim = 3,
                      .qk_rope_head_dim = 2,
                      .v_head_dim = 4};
  return model;
}

ModelSpec Changed(ModelSpec model, const std::function<void(ModelSpec&)>& change) {
  change(model);
  return model;
}

const ModelSpec kTinyGated = Tiny(MlpKind::kQuickGeglu, NormKind::kRmsnorm, true);

const CountCase kCounts[] = {
    // 220 (tiny_gated below), biases q 6, k and v 3 each, output 4, feed-forward 8 + 8 + 4, and a
    // score of each of 2 heads.
    {"tiny_biases_and_sinks",
     Changed(kTinyGated,
             [](ModelSpec& m) {
               m.biases = LinearBiases::kAll;
               m.attention_sinks = true;
             }),
     258, 258},
    {"tiny_attention_biases",
     Changed(kTinyGated, [](ModelSpec& m) { m.biases = LinearBiases::kAttention; }), 236, 236},
    // tiny_gelu below without its biases 6 + 6 + 4 and 8 + 4.
    {"tiny_gelu_without_biases",
     Changed(Tiny(MlpKind::kSquaredRelu, NormKind::kLayernorm, true),
             [](ModelSpec& m) { m.biases = LinearBiases::kNone; }),
     200, 200},
    // Norms of a head of 3 each for queries and keys, or of all 6 and 3 at once.
    {"tiny_qk_norm", Changed(kTinyGated, [](ModelSpec& m) { m.qk_norm = true; }), 226, 226},
    {"tiny_qk_norm_of_all_heads",
     Changed(kTinyGated, [](ModelSpec& m) { m.qk_norm = m.qk_norm_spans_heads = true; }), 229, 229},
    // Two more norms of 4, or the same number elsewhere.
    {"tiny_post_norms", Changed(kTinyGated, [](ModelSpec& m) { m.post_norms = true; }), 228, 228},
    {"tiny_only_post_norms",
     Changed(kTinyGated,
             [](ModelSpec& m) {
               m.post_norms = true;
               m.pre_norms = false;
             }),
     220, 220},
    // 72 + norms 12 + embedding 40 + biases 12 + 4; router 2 4 + 2; 2 experts, or 1 of them, of
    // 3 4 5 + biases 5 + 5 + 4 = 74.
    {"tiny_experts_with_biases",
     Changed(kTinyGated,
             [](ModelSpec& m) {
               m.biases = LinearBiases::kAll;
               m.ffn_hidden_size = 0;
               m.moe =
                   MoeSpec{.expert_count = 2, .experts_per_token = 1, .expert_ffn_hidden_size = 5};
             }),
     298, 224},
    // 2 32000 4096 + 32 (4 4096^2 + 3 4096 11008 + 2 4096) + 4096
    {"llama2_7b", Llama2_7b(), 6'738'415'616, 6'738'415'616},
    // 2 32000 8192 + 80 (2 8192^2 + 2 8192 1024 + 3 8192 28672 + 2 8192) + 8192
    {"llama2_70b", Llama2_70b(), 68'976'648'192, 68'976'648'192},
    // 51200 h + 96 (12 h^2 + 13 h) + 2 h with h = 12288; the 13 h: biases 3 + 1 + 4 + 1, norms 4
    // = 629,145,600 + 173,946,175,488 + 15,335,424 + 24,576
    {"gpt3_175b", Gpt3_175b(), 174'590'681'088, 174'590'681'088},
    // A layer: 2 4096^2 + 2 4096 1024 + 2 4096 + router 8 4096 = 41,984,000, experts of
    // 3 4096 14336 = 176,160,768; 2 32000 4096 + 4096 = 262,148,096 outside.
    // 262,148,096 + 32 (41,984,000 + 8 or 2 x 176,160,768)
    {"mixtral_8x7b", Mixtral_8x7b(), 46'702'792'704, 12'879'925'248},
    // Attention and norms 187,107,328 + 14,336 = 187,121,664 (tech report sizes); dense
    // feed-forward 3 7168 18432 = 396,361,728 in 3 layers; 58 routed layers of router 1,835,008 and
    // experts of 3 7168 2048 = 44,040,192, 256 + 1 of them or 8 + 1; outside
    // 2 129280 7168 + 7168 = 1,853,365,248.
    {"deepseek_v3", DeepseekV3(), 671'026'404'352, 37'552'282'624},
    // One more routed layer with 11,507,286,016 (585,318,400 active), the projection 2 7168^2 =
    // 102,760,448, and three norms with 21,504.
    // 2 7168^2 = 102,760,448, three norms 21,504.
    {"deepseek_v3_mtp", WithMtp(DeepseekV3()), 682'636'472'320, 38'240'382'976},
    // Attention 2 4 6 + 2 4 3 = 72, gated 3 4 8 = 96, norms 3 4 = 12, embedding 40 (twice untied).
    {"tiny_gated", Tiny(MlpKind::kSwiglu, NormKind::kRmsnorm, true), 220, 220},
    {"tiny_untied", Tiny(MlpKind::kGeglu, NormKind::kRmsnorm, false), 260, 260},
    // 72 + biases 6 + 6 + 4, 2 4 8 = 64 + biases 8 + 4, norms 3 8 = 24, embedding 40.
    {"tiny_gelu", Tiny(MlpKind::kGelu, NormKind::kLayernorm, true), 228, 228},
    // Q 4 2 5 = 40; KV down 4 7 = 28, up 5 2 7 = 70; output 2 4 4 = 32; latent norm 5; rest 148.
    {"tiny_mla", TinyMla(0), 323, 323},
    // Q through rank 6 instead: 4 6 + 6 2 5 = 84 and its norm 6.
    {"tiny_mla_q_lora", TinyMla(6), 373, 373},
};

INSTANTIATE_TEST_SUITE_P(All, ParameterCountTest, testing::ValuesIn(kCounts),
                         [](const auto& test) { return test.param.name; });

struct LimitCase {
  std::string name = {};
  std::function<void(ModelSpec&)> change = {};
  FieldViolation violation = {};
};

class ModelLimitTest : public testing::TestWithParam<LimitCase> {};

TEST_P(ModelLimitTest, NamesFieldValueAndLimit) {
  ModelSpec model = DeepseekV3();
  ASSERT_THAT(Validate(model, "model"), testing::IsEmpty());
  GetParam().change(model);
  EXPECT_THAT(Validate(model, "model"), testing::ElementsAre(GetParam().violation));
}

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

const LimitCase kLimits[] = {
    {"no_norms",
     [](ModelSpec& m) { m.pre_norms = false; },
     {"model.pre_norms", "false; must be true without post_norms, because a block has a norm"}},
    {"norms_of_all_heads",
     [](ModelSpec& m) { m.qk_norm_spans_heads = true; },
     {"model.qk_norm_spans_heads", "true; must be false without qk_norm"}},
    {"biases_without_those_of_queries",
     [](ModelSpec& m) {
       m.qkv_bias = true;
       m.biases = LinearBiases::kFeedForward;
     },
     {"model.biases", "feed_forward; must be qkv, attention or all with qkv_bias = true"}},
    {"offset_without_a_gate",
     [](ModelSpec& m) {
       m.mlp = MlpKind::kGelu;
       m.glu_offset = 1;
     },
     {"model.glu_offset", "1; must be 0 with gelu, which has no gate"}},
    {"activation_clamp",
     [](ModelSpec& m) { m.activation_clamp = 0; },
     {"model.activation_clamp", "0; must be > 0"}},
    {"output_soft_cap",
     [](ModelSpec& m) { m.output_soft_cap = -1; },
     {"model.output_soft_cap", "-1; must be > 0"}},
    {"layers", [](ModelSpec& m) { m.layer_count = 0; }, {"model.layer_count", "0; must be >= 1"}},
    {"layers_upper",
     [](ModelSpec& m) { m.layer_count = 10'001; },
     {"model.layer_count", "10001; must be <= 10000"}},
    {"hidden", [](ModelSpec& m) { m.hidden_size = -1; }, {"model.hidden_size", "-1; must be >= 1"}},
    {"ffn_of_dense_layers",
     [](ModelSpec& m) { m.ffn_hidden_size = 0; },
     {"model.ffn_hidden_size", "0; must be >= 1"}},
    {"kv_heads",
     [](ModelSpec& m) { m.kv_head_count = 48; },
     {"model.kv_head_count", "48; must divide attention_head_count 128"}},
    {"head_dim", [](ModelSpec& m) { m.head_dim = 0; }, {"model.head_dim", "0; must be >= 1"}},
    {"vocab", [](ModelSpec& m) { m.vocab_size = 0; }, {"model.vocab_size", "0; must be >= 1"}},
    {"top_k",
     [](ModelSpec& m) { m.moe->experts_per_token = 257; },
     {"model.moe.experts_per_token", "257; must be <= expert_count 256"}},
    {"first_dense",
     [](ModelSpec& m) { m.moe->first_dense_layer_count = 62; },
     {"model.moe.first_dense_layer_count", "62; must be <= layer_count 61"}},
    {"imbalance",
     [](ModelSpec& m) { m.moe->imbalance_ratio = 0.5; },
     {"model.moe.imbalance_ratio", "0.5; must be >= 1"}},
    {"uneven_groups",
     [](ModelSpec& m) {
       m.moe->group_count = 3;
       m.moe->groups_per_token = 1;
     },
     {"model.moe.group_count", "3; must divide expert_count 256"}},
    {"more_chosen_groups",
     [](ModelSpec& m) {
       m.moe->group_count = 2;
       m.moe->groups_per_token = 3;
     },
     {"model.moe.groups_per_token", "3; must be <= 2"}},
    {"shrunk_positions",
     [](ModelSpec& m) { m.rope_scaling = RopeScaling{.factor = 0.5}; },
     {"model.rope_scaling.factor", "0.5; must be >= 1"}},
    {"imbalance_nan",
     [](ModelSpec& m) { m.moe->imbalance_ratio = kNan; },
     {"model.moe.imbalance_ratio", "nan; must be >= 1"}},
    {"q_lora",
     [](ModelSpec& m) { m.mla->q_lora_rank = -1; },
     {"model.mla.q_lora_rank", "-1; must be >= 0"}},
    {"kv_lora",
     [](ModelSpec& m) { m.mla->kv_lora_rank = 0; },
     {"model.mla.kv_lora_rank", "0; must be >= 1"}},
    {"window",
     [](ModelSpec& m) { m.sliding_window = -1; },
     {"model.sliding_window", "-1; must be >= 0"}},
    {"mtp",
     [](ModelSpec& m) { m.mtp_layer_count = -1; },
     {"model.mtp_layer_count", "-1; must be >= 0"}},
    // 58 layers x 1e6 experts x 3 7168 1e7 = 1.25e19: every size is allowed, but the product is
    // not.
    {"product",
     [](ModelSpec& m) {
       m.moe->expert_count = 1'000'000;
       m.moe->expert_ffn_hidden_size = 10'000'000;
     },
     {"model", "1.25e+19 parameters; must be <= 1e+15"}},
};

INSTANTIATE_TEST_SUITE_P(All, ModelLimitTest, testing::ValuesIn(kLimits),
                         [](const auto& test) { return test.param.name; });

TEST(ModelLimitTest, FfnSizeMayBeZeroWhenEveryLayerIsRouted) {
  EXPECT_THAT(Validate(Mixtral_8x7b(), "model"), testing::IsEmpty());
}

TEST(ModelLimitTest, NamesEveryFieldAtOnce) {
  const ModelSpec model = {.moe = MoeSpec{}, .mla = MlaSpec{}};
  // There are six sizes (ffn_hidden_size may be 0 here), three of moe and four of mla.
  EXPECT_EQ(Validate(model, "m").size(), 13u);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

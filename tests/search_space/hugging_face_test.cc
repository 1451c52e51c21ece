#include "search_space/import/hugging_face.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "tests/files/source_folder.h"
#include "tests/search_space/model_files.h"
#include "tests/search_space/models.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

std::string ReadExample(const std::string& path) {
  std::ifstream file(SourceFolder() / "examples" / path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The model that Decoder() describes.
ModelSpec Expected(int ffn_hidden_size = 96) {
  return {.name = "m",
          .layer_count = 4,
          .hidden_size = 64,
          .ffn_hidden_size = ffn_hidden_size,
          .attention_head_count = 8,
          .kv_head_count = 2,
          .head_dim = 8,
          .vocab_size = 100};
}

template <typename Change>
ModelSpec Changed(ModelSpec model, Change change) {
  change(model);
  return model;
}

struct Case {
  std::string name = {};
  Json config = {};
  ModelSpec model = {};
};

class ImportTest : public testing::TestWithParam<Case> {};

TEST_P(ImportTest, ReadsTheConfig) {
  const auto imported = ImportHuggingFaceConfig(GetParam().config.dump(), "m");
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(imported->model, GetParam().model);
  EXPECT_THAT(Validate(imported->model, "model"), testing::IsEmpty());
}

const Json kMlaKeys = {{"kv_lora_rank", 16},         {"qk_nope_head_dim", 12},
                       {"qk_rope_head_dim", 4},      {"v_head_dim", 10},
                       {"n_routed_experts", 32},     {"num_experts_per_tok", 6},
                       {"moe_intermediate_size", 24}};

// The model that Decoder() with kMlaKeys describes; the shared experts and dense layers are those
// of the class.
ModelSpec ExpectedDeepseek(int q_lora_rank, int shared_size, int first_dense) {
  ModelSpec model = Expected(first_dense > 0 ? 96 : 0);
  model.head_dim = 12;
  model.mla = MlaSpec{.q_lora_rank = q_lora_rank,
                      .kv_lora_rank = 16,
                      .qk_nope_head_dim = 12,
                      .qk_rope_head_dim = 4,
                      .v_head_dim = 10};
  model.moe = MoeSpec{.expert_count = 32,
                      .experts_per_token = 6,
                      .expert_ffn_hidden_size = 24,
                      .shared_expert_ffn_hidden_size = shared_size,
                      .first_dense_layer_count = first_dense};
  return model;
}

// A model of the two GPT families, which are neither gated nor use rmsnorm.
ModelSpec ExpectedGpt(int ffn_hidden_size, bool tied) {
  ModelSpec model = Expected(ffn_hidden_size);
  model.kv_head_count = 8;
  model.mlp = MlpKind::kGelu;
  model.norm = NormKind::kLayernorm;
  model.tied_embeddings = tied;
  return model;
}

ModelSpec WithPositions(ModelSpec model, int count) {
  model.position_count = count;
  return model;
}

// Qwen2's class has biases on Q, K and V.
ModelSpec Qwen2() {
  ModelSpec model = Expected();
  model.qkv_bias = true;
  return model;
}

const Json kGpt2 = {
    {"model_type", "gpt2"}, {"n_embd", 64}, {"n_layer", 4}, {"n_head", 8}, {"vocab_size", 100}};
const Json kQwenExperts = {
    {"num_experts", 16}, {"num_experts_per_tok", 4}, {"moe_intermediate_size", 24}};
const MoeSpec kExpectedQwenExperts = {
    .expert_count = 16, .experts_per_token = 4, .expert_ffn_hidden_size = 24};

const Case kDense[] = {
    {"llama", Decoder("llama"), Expected()},
    {"llama_defaults", Without(Decoder("llama"), "num_key_value_heads"),
     Changed(Expected(), [](ModelSpec& m) { m.kv_head_count = 8; })},
    {"llama_stated", With(Decoder("llama"), {{"head_dim", 16}, {"tie_word_embeddings", true}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.head_dim = 16;
               m.tied_embeddings = true;
             })},
    {"llama_nulls", With(Decoder("llama"), {{"head_dim", nullptr}, {"hidden_act", nullptr}}),
     Expected()},
    {"llama_geglu", With(Decoder("llama"), {{"hidden_act", "gelu_pytorch_tanh"}}),
     Changed(Expected(), [](ModelSpec& m) { m.mlp = MlpKind::kGeglu; })},
    {"by_architecture",
     With(Without(Decoder(""), "model_type"),
          {{"architectures", Json::array({"LlamaForCausalLM"})}}),
     Expected()},
    {"aquila", Decoder("aquila"), Expected()},
    {"aquila2", Decoder("aquila2"), Expected()},
    {"aquila3", Decoder("aquila3"), Expected()},
    {"mistral_defaults", Without(Decoder("mistral"), "num_key_value_heads"),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.kv_head_count = 8;
               m.sliding_window = 4096;
             })},
    {"mistral_no_window", With(Decoder("mistral"), {{"sliding_window", nullptr}}), Expected()},
    {"qwen2", Decoder("qwen2"), Qwen2()},
    {"qwen2_window",
     With(Decoder("qwen2"),
          {{"use_sliding_window", true}, {"sliding_window", 128}, {"max_window_layers", 0}}),
     Changed(Qwen2(), [](ModelSpec& m) { m.sliding_window = 128; })},
    // Layers from max_window_layers on have the window, which is none of the 4.
    {"qwen2_window_unused",
     With(Decoder("qwen2"), {{"use_sliding_window", true}, {"max_window_layers", 4}}), Qwen2()},
    {"qwen2_window_on_some_layers",
     With(Decoder("qwen2"),
          {{"use_sliding_window", true}, {"sliding_window", 128}, {"max_window_layers", 2}}),
     Changed(Qwen2(),
             [](ModelSpec& m) {
               m.layers = {{.count = 2}, {.count = 2, .kind = {.sliding_window = 128}}};
             })},
    {"qwen3_defaults", Decoder("qwen3"),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.head_dim = 128;
               m.qk_norm = true;
             })},
    {"gpt2_defaults", kGpt2, WithPositions(ExpectedGpt(256, true), 1024)},
    {"gpt2_stated", With(kGpt2, {{"n_inner", 96}, {"tie_word_embeddings", false}}),
     WithPositions(ExpectedGpt(96, false), 1024)},
    {"gpt_neox", Without(Decoder("gpt_neox"), "num_key_value_heads"),
     Changed(ExpectedGpt(96, false), [](ModelSpec& m) { m.parallel_feed_forward = true; })},
    // Only the feed-forward has biases, and it reads the input of attention.
    {"gptj", Without(Decoder("gptj"), "num_key_value_heads"),
     Changed(ExpectedGpt(96, false),
             [](ModelSpec& m) {
               m.parallel_feed_forward = true;
               m.biases = LinearBiases::kFeedForward;
             })},
    {"falcon",
     With(Without(Decoder("falcon"), "num_key_value_heads"),
          {{"new_decoder_architecture", true}, {"parallel_attn", false}, {"num_kv_heads", 8}}),
     Changed(ExpectedGpt(96, true),
             [](ModelSpec& m) {
               m.parallel_feed_forward = true;
               m.biases = LinearBiases::kNone;
             })},
    {"opt", With(Without(Decoder("opt"), "num_key_value_heads"), {{"hidden_act", "relu"}}),
     WithPositions(Changed(ExpectedGpt(96, true), [](ModelSpec& m) { m.mlp = MlpKind::kRelu; }),
                   2048)},
    {"nemotron",
     With(Without(Decoder("nemotron"), "num_key_value_heads"), {{"hidden_act", "relu2"}}),
     Changed(ExpectedGpt(96, false),
             [](ModelSpec& m) {
               m.mlp = MlpKind::kSquaredRelu;
               m.biases = LinearBiases::kNone;
             })},
    {"llama_attention_bias", With(Decoder("llama"), {{"attention_bias", true}}),
     Changed(Expected(), [](ModelSpec& m) { m.biases = LinearBiases::kAttention; })},
    {"llama_all_biases", With(Decoder("llama"), {{"attention_bias", true}, {"mlp_bias", true}}),
     Changed(Expected(), [](ModelSpec& m) { m.biases = LinearBiases::kAll; })},
    {"seed_oss",
     With(Decoder("seed_oss"),
          {{"attention_bias", true}, {"attention_out_bias", false}, {"head_dim", 8}}),
     Qwen2()},
    {"granite",
     With(Decoder("granite"), {{"embedding_multiplier", 12},
                               {"attention_multiplier", 0.0078125},
                               {"residual_multiplier", 0.22},
                               {"logits_scaling", 16}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.embedding_scale = 12;
               m.attention_scale = 0.0078125;
               m.residual_scale = 0.22;
               m.output_scale = 0.0625;
             })},
    // 1.4 / sqrt(4 layers), and 64 / 16.
    {"minicpm",
     With(Decoder("minicpm"), {{"scale_emb", 12}, {"scale_depth", 1.4}, {"dim_model_base", 16}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.embedding_scale = 12;
               m.residual_scale = 0.7;
               m.output_scale = 0.25;
             })},
    {"olmo2", Decoder("olmo2"),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.qk_norm = m.qk_norm_spans_heads = m.post_norms = true;
               m.pre_norms = false;
             })},
    // One layer in two has no window.
    {"gemma2", With(Decoder("gemma2"), {{"sliding_window", 32}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.mlp = MlpKind::kGeglu;
               m.tied_embeddings = m.post_norms = true;
               m.attention_soft_cap = 50;
               m.output_soft_cap = 30;
               m.attention_scale = 0.0625;  // 1 / sqrt(256), the class's; a head has 8
               m.embedding_scale = 8;       // sqrt(64)
               m.layers = {{.count = 1, .kind = {.sliding_window = 32}}, {.count = 1}};
             })},
    // A stated null is none, and a scalar of the head's size changes nothing.
    {"gemma2_stated",
     With(Decoder("gemma2"), {{"sliding_window", 32},
                              {"attn_logit_softcapping", nullptr},
                              {"final_logit_softcapping", 20},
                              {"query_pre_attn_scalar", 8}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.mlp = MlpKind::kGeglu;
               m.tied_embeddings = m.post_norms = true;
               m.output_soft_cap = 20;
               m.embedding_scale = 8;
               m.layers = {{.count = 1, .kind = {.sliding_window = 32}}, {.count = 1}};
             })},
    {"layer_types",
     With(Decoder("olmo3"),
          {{"sliding_window", 32},
           {"layer_types",
            {"sliding_attention", "sliding_attention", "sliding_attention", "full_attention"}}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.qk_norm = m.qk_norm_spans_heads = m.post_norms = true;
               m.pre_norms = false;
               m.layers = {{.count = 3, .kind = {.sliding_window = 32}}, {.count = 1}};
             })},
    // Each letter is a layer of its own.
    {"nemotron_h",
     With(Decoder("nemotron_h"), {{"hybrid_override_pattern", "M-*-"},
                                  {"mamba_num_heads", 4},
                                  {"mamba_head_dim", 16},
                                  {"n_groups", 2},
                                  {"ssm_state_size", 32},
                                  {"conv_kernel", 4}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.mlp = MlpKind::kGelu;
               m.state_space = StateSpaceSpec{.head_count = 4,
                                              .head_dim = 16,
                                              .group_count = 2,
                                              .state_size = 32,
                                              .convolution_size = 4};
               const LayerRun dense = {.count = 1, .kind = {.mixer = TokenMixer::kNone}};
               m.layers = {{.count = 1,
                            .kind = {.mixer = TokenMixer::kStateSpace,
                                     .feed_forward = FeedForwardKind::kNone}},
                           dense,
                           {.count = 1, .kind = {.feed_forward = FeedForwardKind::kNone}},
                           dense};
             })},
    // A tower for pictures stands beside the language model.
    {"text_part",
     {{"model_type", "qwen3_vl"},
      {"text_config", With(Decoder("qwen3_vl_text"), {{"head_dim", 16}})},
      {"vision_config", {{"hidden_size", 1152}, {"num_heads", 16}}},
      {"tie_word_embeddings", true}},
     Changed(Expected(),
             [](ModelSpec& m) {
               m.head_dim = 16;
               m.qk_norm = m.tied_embeddings = true;
             })},
    {"rotary_and_norm", With(Decoder("llama"), {{"rope_theta", 500000.0}, {"rms_norm_eps", 1e-5}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.rotary_base = 500000;
               m.norm_epsilon = 1e-5;
             })},
    // A family that nobody has listed is read by its keys.
    {"unknown_family", With(Decoder("newest"), {{"use_qk_norm", true}}),
     Changed(Expected(), [](ModelSpec& m) { m.qk_norm = true; })},
};

const Case kRouted[] = {
    // The file states silu, which the class does not use.
    {"gpt_oss",
     With(Decoder("gpt_oss"), {{"num_local_experts", 8},
                               {"num_experts_per_tok", 2},
                               {"attention_bias", true},
                               {"sliding_window", 32},
                               {"swiglu_limit", 5}}),
     Changed(Expected(0),
             [](ModelSpec& m) {
               m.moe =
                   MoeSpec{.expert_count = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 96};
               m.mlp = MlpKind::kQuickGeglu;
               m.biases = LinearBiases::kAll;
               m.attention_sinks = true;
               m.glu_offset = 1;
               m.activation_clamp = 5;
               m.layers = {
                   {.count = 1,
                    .kind = {.feed_forward = FeedForwardKind::kExperts, .sliding_window = 32}},
                   {.count = 1, .kind = {.feed_forward = FeedForwardKind::kExperts}}};
             })},
    {"mixtral", With(Decoder("mixtral"), {{"num_local_experts", 8}, {"num_experts_per_tok", 2}}),
     Changed(Expected(0),
             [](ModelSpec& m) {
               m.moe =
                   MoeSpec{.expert_count = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 96};
             })},
    {"qwen2_moe",
     With(With(Decoder("qwen2_moe"), kQwenExperts), {{"shared_expert_intermediate_size", 48}}),
     Changed(Expected(0),
             [](ModelSpec& m) {
               m.moe = kExpectedQwenExperts;
               m.moe->shared_expert_ffn_hidden_size = 48;
               m.qkv_bias = true;
             })},
    {"qwen3_moe",
     With(With(Decoder("qwen3_moe"), kQwenExperts),
          {{"decoder_sparse_step", 1}, {"mlp_only_layers", Json::array()}}),
     Changed(Expected(0),
             [](ModelSpec& m) {
               m.moe = kExpectedQwenExperts;
               m.qk_norm = true;
             })},
    // Experts in every second layer but the first two.
    {"qwen3_moe_mixed",
     With(With(Decoder("qwen3_moe"), kQwenExperts),
          {{"decoder_sparse_step", 2}, {"mlp_only_layers", {1}}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.moe = kExpectedQwenExperts;
               m.moe->first_dense_layer_count = 3;
               m.qk_norm = true;
             })},
    {"qwen3_moe_alternating",
     With(With(Decoder("qwen3_moe"), kQwenExperts), {{"decoder_sparse_step", 2}}),
     Changed(Expected(),
             [](ModelSpec& m) {
               m.moe = kExpectedQwenExperts;
               m.qk_norm = true;
               m.layers = {{.count = 1},
                           {.count = 1, .kind = {.feed_forward = FeedForwardKind::kExperts}}};
             })},
    // Llama 4: chunks in all but every fourth layer, a shared expert of the same size, dense layers
    // of another.
    {"llama4",
     With(Decoder("llama4_text"), {{"num_local_experts", 4},
                                   {"num_experts_per_tok", 1},
                                   {"interleave_moe_layer_step", 2},
                                   {"intermediate_size_mlp", 200},
                                   {"attention_chunk_size", 32}}),
     Changed(Expected(200),
             [](ModelSpec& m) {
               m.moe = MoeSpec{.expert_count = 4,
                               .experts_per_token = 1,
                               .expert_ffn_hidden_size = 96,
                               .shared_expert_ffn_hidden_size = 96};
               const LayerKind chunked = {.sliding_window = 32, .is_chunked = true};
               LayerKind experts = chunked;
               experts.feed_forward = FeedForwardKind::kExperts;
               m.layers = {{.count = 1, .kind = chunked},
                           {.count = 1, .kind = experts},
                           {.count = 1, .kind = chunked},
                           {.count = 1, .kind = {.feed_forward = FeedForwardKind::kExperts}}};
             })},
    // Three layers of gated delta rules to one of attention with an output gate.
    {"qwen3_next",
     With(With(Decoder("qwen3_next"), kQwenExperts), {{"full_attention_interval", 4},
                                                      {"shared_expert_intermediate_size", 24},
                                                      {"linear_num_key_heads", 2},
                                                      {"linear_num_value_heads", 4},
                                                      {"linear_key_head_dim", 8},
                                                      {"linear_value_head_dim", 8},
                                                      {"linear_conv_kernel_dim", 4}}),
     Changed(Expected(0),
             [](ModelSpec& m) {
               m.moe = kExpectedQwenExperts;
               m.moe->shared_expert_ffn_hidden_size = 24;
               m.qk_norm = m.attention_output_gate = true;
               m.linear_attention = LinearAttentionSpec{.kind = LinearAttentionKind::kGatedDelta,
                                                        .key_head_count = 2,
                                                        .value_head_count = 4,
                                                        .key_head_dim = 8,
                                                        .value_head_dim = 8,
                                                        .convolution_size = 4};
               m.layers = {{.count = 3,
                            .kind = {.mixer = TokenMixer::kLinearAttention,
                                     .feed_forward = FeedForwardKind::kExperts}},
                           {.count = 1, .kind = {.feed_forward = FeedForwardKind::kExperts}}};
             })},
    // DeepseekV2Config: two shared experts of 24, no dense layer, q_lora_rank 1536.
    {"deepseek_v2_defaults", With(Decoder("deepseek_v2"), kMlaKeys), ExpectedDeepseek(1536, 48, 0)},
    {"deepseek_v2_lite",
     With(With(Decoder("deepseek_v2"), kMlaKeys),
          {{"q_lora_rank", nullptr}, {"n_shared_experts", 3}, {"first_k_dense_replace", 1}}),
     ExpectedDeepseek(0, 72, 1)},
    // DeepseekV3Config: one shared expert, three dense layers.
    {"deepseek_v3_defaults", With(Decoder("deepseek_v3"), kMlaKeys), ExpectedDeepseek(1536, 24, 3)},
    {"deepseek_v3_mtp",
     With(With(Decoder("deepseek_v3"), kMlaKeys),
          {{"moe_layer_freq", 1}, {"num_nextn_predict_layers", 2}}),
     Changed(ExpectedDeepseek(1536, 24, 3), [](ModelSpec& m) { m.mtp_layer_count = 2; })},
};

const auto kCaseName = [](const auto& test) { return test.param.name; };
INSTANTIATE_TEST_SUITE_P(Dense, ImportTest, testing::ValuesIn(kDense), kCaseName);
INSTANTIATE_TEST_SUITE_P(Routed, ImportTest, testing::ValuesIn(kRouted), kCaseName);

TEST(ImportTest, ReadsTheExample) {
  ModelSpec llama = Llama2_70b();
  llama.norm_epsilon = 1e-5;
  EXPECT_EQ(ImportHuggingFaceConfig(ReadExample("llama2-70b/config.json"), "llama2-70b")->model,
            llama);
}

TEST(ImportTest, NotesWhatItLeavesOut) {
  const auto notes = [](const Json& config) {
    return ImportHuggingFaceConfig(config.dump(), "m").value().notes;
  };
  EXPECT_THAT(notes(Decoder("llama")), testing::IsEmpty());
  EXPECT_THAT(notes({{"model_type", "qwen3_vl"}, {"text_config", Decoder("qwen3_vl_text")}}),
              testing::ElementsAre(testing::HasSubstr("towers for pictures or sound")));
  EXPECT_THAT(notes(With(Decoder("llama"), {{"quantization_config", {{"bits", 4}}}})),
              testing::ElementsAre(testing::HasSubstr("quantized weights")));
  EXPECT_THAT(notes(Decoder("newest")),
              testing::ElementsAre(testing::HasSubstr("newest is not known"),
                                   testing::HasSubstr("no activation"),
                                   testing::HasSubstr("share a matrix")));
  EXPECT_THAT(notes({{"model_type", "mamba2"},
                     {"hidden_size", 64},
                     {"num_hidden_layers", 4},
                     {"vocab_size", 100},
                     {"num_heads", 4},
                     {"head_dim", 16},
                     {"n_groups", 1},
                     {"state_size", 32},
                     {"conv_kernel", 4}}),
              testing::ElementsAre(testing::HasSubstr("no measured run")));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

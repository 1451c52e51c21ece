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
#include "tests/search_space/models.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

std::string ReadExample(const std::string& path) {
  std::ifstream file(std::string(MESHWRIGHT_EXAMPLES "/") + path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// The keys that most families share, with h 64, 8 heads, V 100 and 4 layers.
Json Decoder(const std::string& model_type) {
  return {{"model_type", model_type}, {"hidden_size", 64},        {"intermediate_size", 96},
          {"num_hidden_layers", 4},   {"num_attention_heads", 8}, {"vocab_size", 100},
          {"num_key_value_heads", 2}};
}

Json With(Json config, const Json& changes) {
  config.update(changes);
  return config;
}

Json Without(Json config, const std::string& key) {
  config.erase(key);
  return config;
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
  const absl::StatusOr<ModelSpec> model = ImportHuggingFaceConfig(GetParam().config.dump(), "m");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(*model, GetParam().model);
  EXPECT_THAT(Validate(*model, "model"), testing::IsEmpty());
}

const Json kMlaKeys = {{"kv_lora_rank", 16},         {"qk_nope_head_dim", 12},
                       {"qk_rope_head_dim", 4},      {"v_head_dim", 10},
                       {"n_routed_experts", 32},     {"num_experts_per_tok", 6},
                       {"moe_intermediate_size", 24}};

// The model that Decoder() with kMlaKeys describes; the shared experts and dense layers are those
// of the class.
ModelSpec ExpectedDeepseek(int q_lora_rank, int shared_size, int first_dense) {
  ModelSpec model = Expected();
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
    {"qwen2", Decoder("qwen2"), Expected()},
    {"qwen2_window",
     With(Decoder("qwen2"),
          {{"use_sliding_window", true}, {"sliding_window", 128}, {"max_window_layers", 0}}),
     Changed(Expected(), [](ModelSpec& m) { m.sliding_window = 128; })},
    // Layers from max_window_layers on have the window, which is none of the 4.
    {"qwen2_window_unused",
     With(Decoder("qwen2"), {{"use_sliding_window", true}, {"max_window_layers", 4}}), Expected()},
    {"qwen3_defaults", Decoder("qwen3"),
     Changed(Expected(), [](ModelSpec& m) { m.head_dim = 128; })},
    {"gpt2_defaults", kGpt2, ExpectedGpt(256, true)},
    {"gpt2_stated", With(kGpt2, {{"n_inner", 96}, {"tie_word_embeddings", false}}),
     ExpectedGpt(96, false)},
    {"gpt_neox", Decoder("gpt_neox"), ExpectedGpt(96, false)},
};

const Case kRouted[] = {
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
             })},
    {"qwen3_moe",
     With(With(Decoder("qwen3_moe"), kQwenExperts),
          {{"decoder_sparse_step", 1}, {"mlp_only_layers", Json::array()}}),
     Changed(Expected(0), [](ModelSpec& m) { m.moe = kExpectedQwenExperts; })},
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

TEST(ImportTest, ReadsTheExamples) {
  EXPECT_EQ(ImportHuggingFaceConfig(ReadExample("llama2-70b/config.json"), "llama2-70b").value(),
            Llama2_70b());
  ModelSpec deepseek = DeepseekV3();
  deepseek.mtp_layer_count = 1;
  EXPECT_EQ(ImportHuggingFaceConfig(ReadExample("deepseek-v3/config.json"), "deepseek-v3").value(),
            deepseek);
}

struct BadCase {
  std::string name = {};
  std::string text = {};
  std::vector<FieldViolation> violations = {};
  std::string reason = "INVALID_FIELDS";
};

class ImportErrorTest : public testing::TestWithParam<BadCase> {};

TEST_P(ImportErrorTest, NamesEveryBadKey) {
  const absl::Status status = ImportHuggingFaceConfig(GetParam().text, "m").status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_EQ(Reason(status), GetParam().reason);
  EXPECT_EQ(FieldViolations(status), GetParam().violations);
}

constexpr char kKnown[] =
    "must be one of aquila, aquila2, aquila3, deepseek_v2, deepseek_v3, gpt2, gpt_neox, llama, "
    "mistral, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe";

const BadCase kBad[] = {
    {"no_json", "{", {{"model", "not JSON; must be a JSON object"}}},
    {"no_object", "[1]", {{"model", "[1]; must be a JSON object"}}},
    {"unknown_family",
     Decoder("bloom").dump(),
     {{"model.model_type", std::string("\"bloom\"; ") + kKnown}},
     "UNKNOWN_MODEL_FAMILY"},
    {"no_family",
     "{}",
     {{"model.model_type", std::string("null; ") + kKnown}},
     "UNKNOWN_MODEL_FAMILY"},
    {"family_of_another_type",
     R"({"model_type": {"llama": 1}})",
     {{"model.model_type", std::string(R"({"llama":1}; )") + kKnown}},
     "UNKNOWN_MODEL_FAMILY"},
    {"everything_missing",
     R"({"model_type": "llama"})",
     {{"model.num_hidden_layers", "missing; required"},
      {"model.hidden_size", "missing; required"},
      {"model.num_attention_heads", "missing; required"},
      {"model.vocab_size", "missing; required"},
      {"model.intermediate_size", "missing; required"}}},
    {"wrong_types",
     With(Decoder("llama"), {{"hidden_size", "64"},
                             {"vocab_size", 0.5},
                             {"num_hidden_layers", 0},
                             {"intermediate_size", 18446744073709551615u},
                             {"hidden_act", "relu"},
                             {"tie_word_embeddings", 1}})
         .dump(),
     {{"model.num_hidden_layers", "0; must be >= 1"},
      {"model.hidden_size", "\"64\"; must be an integer"},
      {"model.vocab_size", "0.5; must be an integer"},
      {"model.hidden_act", "\"relu\"; must be silu, swish or a gelu"},
      {"model.tie_word_embeddings", "1; must be true or false"},
      {"model.intermediate_size", "18446744073709551615; must be <= 100000000"}}},
    {"head_size",
     With(Decoder("llama"), {{"num_attention_heads", 7}}).dump(),
     {{"model.hidden_size",
       "64; must be a multiple of the 7 attention heads when no head size is stated"}}},
    {"sparse_step",
     With(With(Decoder("qwen3_moe"), kQwenExperts),
          {{"decoder_sparse_step", 2}, {"mlp_only_layers", {0, 1}}})
         .dump(),
     {{"model.decoder_sparse_step", "2; only 1 is supported"},
      {"model.mlp_only_layers", "[0,1]; only [] is supported"}}},
    {"layer_freq",
     With(With(Decoder("deepseek_v3"), kMlaKeys), {{"moe_layer_freq", 2}}).dump(),
     {{"model.moe_layer_freq", "2; only 1 is supported"}}},
    {"window_on_some_layers",
     With(Decoder("qwen2"), {{"use_sliding_window", true}, {"max_window_layers", 2}}).dump(),
     {{"model.max_window_layers",
       "2; a window on some layers only is not supported: must be 0, or "
       ">= num_hidden_layers 4"}}},
};

INSTANTIATE_TEST_SUITE_P(All, ImportErrorTest, testing::ValuesIn(kBad), kCaseName);

TEST(LooksLikeHuggingFaceConfigTest, NeedsAFamily) {
  EXPECT_TRUE(LooksLikeHuggingFaceConfig(R"({"model_type": "bloom"})"));
  EXPECT_TRUE(LooksLikeHuggingFaceConfig(R"({"architectures": []})"));
  EXPECT_FALSE(LooksLikeHuggingFaceConfig(R"({"name": "llama-13b", "layer_count": 40})"));
  EXPECT_FALSE(LooksLikeHuggingFaceConfig(R"(["model_type"])"));
  EXPECT_FALSE(LooksLikeHuggingFaceConfig("model_type"));
  EXPECT_FALSE(LooksLikeHuggingFaceConfig(""));
}

}  // namespace
}  // namespace meshwright

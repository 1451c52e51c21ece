#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/import/hugging_face.h"
#include "tests/search_space/model_files.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

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

constexpr char kOwnKeys[] =
    "write the model in Meshwright's own keys instead (layer_count, hidden_size, ffn_hidden_size, "
    "attention_head_count, kv_head_count, head_dim, vocab_size, mlp, norm, moe, mla, layers)";

std::string OrOwnKeys(const std::string& mistake) { return mistake + kOwnKeys; }

const BadCase kBad[] = {
    {"no_json", "{", {{"model", "not JSON; must be a JSON object"}}},
    {"no_object", "[1]", {{"model", "[1]; must be a JSON object"}}},
    {"no_family",
     "{}",
     {{"model.model_type", OrOwnKeys("missing; must be a string of a config.json, or ")}},
     "UNKNOWN_MODEL_FAMILY"},
    {"family_of_another_type",
     R"({"model_type": {"llama": 1}})",
     {{"model.model_type", OrOwnKeys(R"({"llama":1}; must be a string of a config.json, or )")}},
     "UNKNOWN_MODEL_FAMILY"},
    {"encoder_and_decoder",
     With(Decoder("t5"), {{"is_encoder_decoder", true}}).dump(),
     {{"model",
       "is a model with an encoder and a decoder; only decoders that predict the next token "
       "are planned"}},
     "UNKNOWN_MODEL_FAMILY"},
    {"classifier",
     With(Decoder("llama"), {{"architectures", {"LlamaForSequenceClassification"}}}).dump(),
     {{"model",
       "is LlamaForSequenceClassification, which has no language-model head; only decoders "
       "that predict the next token are planned"}},
     "UNKNOWN_MODEL_FAMILY"},
    {"adapter",
     R"({"peft_type": "LORA", "r": 16})",
     {{"model", "is the file of an adapter; the config.json of its base model is wanted"}},
     "UNKNOWN_MODEL_FAMILY"},
    {"meta_params",
     R"({"dim": 4096, "n_layers": 32, "ffn_dim_multiplier": 1.3, "multiple_of": 1024})",
     {{"model",
       "is a params.json of Meta, which has no feed-forward size; the config.json of the same "
       "model "
       "from the Hugging Face hub is wanted"}},
     "UNKNOWN_MODEL_FAMILY"},
    {"experts_of_a_dense_family",
     With(Decoder("llama"), {{"num_local_experts", 8}, {"num_experts_per_tok", 2}}).dump(),
     {{"model.num_local_experts",
       "8; a model of this type has no experts; state the type that builds them, or remove the "
       "key"}}},
    {"layers_that_share_keys",
     With(Decoder("llama"), {{"num_kv_shared_layers", 2}}).dump(),
     {{"model.num_kv_shared_layers",
       OrOwnKeys("2; it means layers that share keys and values, which is not modelled; ")}}},
    {"key_of_unknown_meaning",
     With(Decoder("newest"), {{"num_spiral_layers", 2}, {"initializer_range", 0.02}}).dump(),
     {{"model.num_spiral_layers", OrOwnKeys("2; the meaning of this key is not known, and it may "
                                            "change the layers; ")}}},
    {"pattern_of_another_length",
     With(Decoder("nemotron_h"), {{"hybrid_override_pattern", "M*"}}).dump(),
     {{"model.hybrid_override_pattern", "\"M*\"; must have an entry for each of the 4 layers"}}},
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
                             {"hidden_act", "tanh"},
                             {"tie_word_embeddings", 1}})
         .dump(),
     {{"model.num_hidden_layers", "0; must be >= 1"},
      {"model.hidden_size", "\"64\"; must be an integer"},
      {"model.vocab_size", "0.5; must be an integer"},
      {"model.hidden_act", "\"tanh\"; must be silu, swish, relu, relu2 or a gelu"},
      {"model.tie_word_embeddings", "1; must be true or false"},
      {"model.intermediate_size", "18446744073709551615; must be <= 100000000"}}},
    {"head_size",
     With(Decoder("llama"), {{"num_attention_heads", 7}}).dump(),
     {{"model.hidden_size",
       "64; must be a multiple of the 7 attention heads when no head size is stated"}}},
};

INSTANTIATE_TEST_SUITE_P(All, ImportErrorTest, testing::ValuesIn(kBad),
                         [](const auto& test) { return test.param.name; });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

#include "search_space/import/hugging_face.h"

#include <fmt/format.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/shown_value.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/limits.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

// Larger than every size of a real model, and small enough that four times it still fits in int.
constexpr std::int64_t kMaxValue = 100'000'000;

// Reads keys of one config and collects the mistakes in them. A wrong key reads as 0, so that the
// importer continues and finds the next wrong key too.
class ConfigReader {
 public:
  explicit ConfigReader(const Json& config) : config_(config), check_("model") {}

  // Reads a size that must be stated.
  int Size(const char* key) {
    if (IsAbsent(key)) {
      check_.Missing(key);
      return 0;
    }
    return Integer(key, 1);
  }

  // Reads a size; returns `absent` if the key is missing, and nullopt if it is null.
  std::optional<int> Optional(const char* key, std::optional<int> absent) {
    if (!config_.contains(key)) return absent;
    if (config_[key].is_null()) return std::nullopt;
    return Integer(key, 0);
  }

  bool Flag(const char* key, bool absent) {
    if (IsAbsent(key)) return absent;
    if (config_[key].is_boolean()) return config_[key].get<bool>();
    Reject(key, "must be true or false");
    return absent;
  }

  std::string Text(const char* key, const char* absent) {
    if (IsAbsent(key)) return absent;
    if (config_[key].is_string()) return config_[key].get<std::string>();
    Reject(key, "must be a string");
    return absent;
  }

  // Checks a key for which only one value, which is also its default, can be modelled.
  void Only(const char* key, const Json& supported) {
    if (IsAbsent(key) || config_[key] == supported) return;
    Reject(key, fmt::format("only {} is supported", ShownValue(supported)));
  }

  void Reject(const char* key, std::string_view demand) {
    const std::string value = config_.contains(key) ? ShownValue(config_[key]) : "missing";
    check_.Add(key, fmt::format("{}; {}", value, demand));
  }

  std::vector<FieldViolation> violations() && { return std::move(check_).violations(); }

 private:
  bool IsAbsent(const char* key) const { return !config_.contains(key) || config_[key].is_null(); }

  int Integer(const char* key, std::int64_t low) {
    const Json& value = config_[key];
    if (!value.is_number_integer()) {
      Reject(key, "must be an integer");
    } else if (value.get<double>() < static_cast<double>(low)) {  // exact enough, for uint64 too
      Reject(key, fmt::format("must be >= {}", low));
    } else if (value.get<double>() > static_cast<double>(kMaxValue)) {
      Reject(key, fmt::format("must be <= {}", kMaxValue));
    } else {
      return value.get<int>();
    }
    return 0;
  }

  const Json& config_;
  LimitChecker check_;
};

constexpr bool IsGelu(std::string_view activation) {
  return activation == "gelu" || activation == "gelu_new" || activation == "gelu_fast" ||
         activation == "gelu_pytorch_tanh" || activation == "gelu_python";
}

MlpKind GatedMlp(ConfigReader& config) {
  const std::string activation = config.Text("hidden_act", "silu");
  if (IsGelu(activation)) return MlpKind::kGeglu;
  if (activation != "silu" && activation != "swish") {
    config.Reject("hidden_act", "must be silu, swish or a gelu");
  }
  return MlpKind::kSwiglu;
}

MlpKind GeluMlp(ConfigReader& config, const char* key, const char* absent) {
  if (!IsGelu(config.Text(key, absent))) config.Reject(key, "must be a gelu");
  return MlpKind::kGelu;
}

// Returns hidden size / heads, which must be a whole number if no head size is stated.
int DerivedHeadDim(ConfigReader& config, const ModelSpec& model, const char* hidden_size_key) {
  if (model.attention_head_count == 0) return 0;  // already rejected
  if (model.hidden_size % model.attention_head_count != 0) {
    config.Reject(hidden_size_key, fmt::format("must be a multiple of the {} attention heads when "
                                               "no head size is stated",
                                               model.attention_head_count));
  }
  return model.hidden_size / model.attention_head_count;
}

// The defaults of a family's class for absent keys. nullopt means the same as null does there: as
// many KV heads as heads, and head_dim = hidden_size / heads.
struct AttentionDefaults {
  std::optional<int> kv_head_count = {};
  std::optional<int> head_dim = {};
};

// Imports everything but the feed-forward of the decoders that use Llama's keys.
ModelSpec ImportDecoder(ConfigReader& config, const AttentionDefaults& absent) {
  ModelSpec model;
  model.layer_count = config.Size("num_hidden_layers");
  model.hidden_size = config.Size("hidden_size");
  model.attention_head_count = config.Size("num_attention_heads");
  model.kv_head_count = config.Optional("num_key_value_heads", absent.kv_head_count)
                            .value_or(model.attention_head_count);
  const std::optional<int> head_dim = config.Optional("head_dim", absent.head_dim);
  model.head_dim = head_dim.has_value() ? *head_dim : DerivedHeadDim(config, model, "hidden_size");
  model.vocab_size = config.Size("vocab_size");
  model.mlp = GatedMlp(config);
  model.norm = NormKind::kRmsnorm;
  // PretrainedConfig's default is true, but all the classes below set false.
  model.tied_embeddings = config.Flag("tie_word_embeddings", false);
  return model;
}

// Imports LlamaConfig, and AquilaConfig of BAAI's hub repositories, which has the same keys and
// defaults.
ModelSpec ImportLlama(ConfigReader& config) {
  ModelSpec model = ImportDecoder(config, {});
  model.ffn_hidden_size = config.Size("intermediate_size");
  return model;
}

// MistralConfig: num_key_value_heads=8, sliding_window=4096; null switches the window off.
ModelSpec ImportMistral(ConfigReader& config) {
  ModelSpec model = ImportDecoder(config, {.kv_head_count = 8});
  model.ffn_hidden_size = config.Size("intermediate_size");
  model.sliding_window = config.Optional("sliding_window", 4096).value_or(0);
  return model;
}

// MixtralConfig: num_key_value_heads=8, sliding_window=None. intermediate_size is the size of an
// expert; no layer is dense.
ModelSpec ImportMixtral(ConfigReader& config) {
  ModelSpec model = ImportDecoder(config, {.kv_head_count = 8});
  model.sliding_window = config.Optional("sliding_window", std::nullopt).value_or(0);
  model.moe = MoeSpec{.expert_count = config.Size("num_local_experts"),
                      .experts_per_token = config.Size("num_experts_per_tok"),
                      .expert_ffn_hidden_size = config.Size("intermediate_size")};
  return model;
}

// Qwen2Config, Qwen3Config: sliding_window=4096 applies only with use_sliding_window, and only from
// layer max_window_layers=28 on. A ModelSpec has the same window on every layer or none at all.
int QwenSlidingWindow(ConfigReader& config, int layer_count) {
  const int window = config.Optional("sliding_window", 4096).value_or(0);
  const int first_layer = config.Optional("max_window_layers", 28).value_or(0);
  if (!config.Flag("use_sliding_window", false) || first_layer >= layer_count) return 0;
  if (first_layer > 0) {
    config.Reject("max_window_layers",
                  fmt::format("a window on some layers only is not supported: must be 0, or >= "
                              "num_hidden_layers {}",
                              layer_count));
  }
  return window;
}

ModelSpec ImportDenseQwen(ConfigReader& config, const AttentionDefaults& absent) {
  ModelSpec model = ImportDecoder(config, absent);
  model.ffn_hidden_size = config.Size("intermediate_size");
  model.sliding_window = QwenSlidingWindow(config, model.layer_count);
  return model;
}

// Qwen2Config: num_key_value_heads=32.
ModelSpec ImportQwen2(ConfigReader& config) {
  return ImportDenseQwen(config, {.kv_head_count = 32});
}

// Qwen3Config: num_key_value_heads=32, head_dim=128.
ModelSpec ImportQwen3(ConfigReader& config) {
  return ImportDenseQwen(config, {.kv_head_count = 32, .head_dim = 128});
}

// Qwen2MoeConfig, Qwen3MoeConfig: decoder_sparse_step=1 and mlp_only_layers=[], so every layer is
// routed and no layer uses intermediate_size. Other values would mix the two kinds of layers.
ModelSpec ImportRoutedQwen(ConfigReader& config, const AttentionDefaults& absent) {
  ModelSpec model = ImportDecoder(config, absent);
  model.moe = MoeSpec{.expert_count = config.Size("num_experts"),
                      .experts_per_token = config.Size("num_experts_per_tok"),
                      .expert_ffn_hidden_size = config.Size("moe_intermediate_size")};
  config.Only("decoder_sparse_step", 1);
  config.Only("mlp_only_layers", Json::array());
  return model;
}

// Qwen2MoeConfig: num_key_value_heads=16, shared_expert_intermediate_size=5632. Its window, if
// used, is on every other layer.
ModelSpec ImportQwen2Moe(ConfigReader& config) {
  ModelSpec model = ImportRoutedQwen(config, {.kv_head_count = 16});
  model.moe->shared_expert_ffn_hidden_size =
      config.Optional("shared_expert_intermediate_size", 5632).value_or(0);
  config.Only("use_sliding_window", false);
  return model;
}

// Qwen3MoeConfig: num_key_value_heads=4, sliding_window=4096 on every layer with
// use_sliding_window. Qwen3MoeAttention uses hidden_size / heads if head_dim is absent.
ModelSpec ImportQwen3Moe(ConfigReader& config) {
  ModelSpec model = ImportRoutedQwen(config, {.kv_head_count = 4});
  const int window = config.Optional("sliding_window", 4096).value_or(0);
  model.sliding_window = config.Flag("use_sliding_window", false) ? window : 0;
  return model;
}

struct DeepseekDefaults {
  int shared_expert_count = 0;
  int first_dense_layer_count = 0;
};

ModelSpec ImportDeepseek(ConfigReader& config, const DeepseekDefaults& absent) {
  const int nope_head_dim = config.Size("qk_nope_head_dim");
  // MLA states its own head sizes; ModelSpec::head_dim is the part without rotary embedding. The
  // head_dim of the class (the rotary part) is not what files of the hub mean by the key.
  ModelSpec model = ImportDecoder(config, {.head_dim = nope_head_dim});
  model.head_dim = nope_head_dim;
  model.ffn_hidden_size = config.Size("intermediate_size");
  // Both classes have q_lora_rank=1536; null projects queries directly (DeepSeek-V2-Lite).
  model.mla = MlaSpec{.q_lora_rank = config.Optional("q_lora_rank", 1536).value_or(0),
                      .kv_lora_rank = config.Size("kv_lora_rank"),
                      .qk_nope_head_dim = nope_head_dim,
                      .qk_rope_head_dim = config.Size("qk_rope_head_dim"),
                      .v_head_dim = config.Size("v_head_dim")};
  const int expert_size = config.Size("moe_intermediate_size");
  const std::int64_t shared_count =
      config.Optional("n_shared_experts", absent.shared_expert_count).value_or(0);
  if (shared_count * expert_size > kMaxValue) {
    config.Reject("n_shared_experts",
                  fmt::format("times moe_intermediate_size must be <= {}", kMaxValue));
  }
  model.moe = MoeSpec{
      .expert_count = config.Size("n_routed_experts"),
      .experts_per_token = config.Size("num_experts_per_tok"),
      .expert_ffn_hidden_size = expert_size,
      .shared_expert_ffn_hidden_size =
          shared_count * expert_size > kMaxValue ? 0 : static_cast<int>(shared_count) * expert_size,
      .first_dense_layer_count =
          config.Optional("first_k_dense_replace", absent.first_dense_layer_count).value_or(0)};
  config.Only("moe_layer_freq", 1);
  // DeepSeek-V3's file has this key; the class of transformers does not, and builds no such layers.
  model.mtp_layer_count = config.Optional("num_nextn_predict_layers", 0).value_or(0);
  return model;
}

// DeepseekV2Config: n_shared_experts=2, first_k_dense_replace=0.
ModelSpec ImportDeepseekV2(ConfigReader& config) {
  return ImportDeepseek(config, {.shared_expert_count = 2, .first_dense_layer_count = 0});
}

// DeepseekV3Config: n_shared_experts=1, first_k_dense_replace=3.
ModelSpec ImportDeepseekV3(ConfigReader& config) {
  return ImportDeepseek(config, {.shared_expert_count = 1, .first_dense_layer_count = 3});
}

// GPT2Config: n_inner=None means 4 n_embd, activation_function="gelu_new"; tie_word_embeddings is
// true, the default of PretrainedConfig.
ModelSpec ImportGpt2(ConfigReader& config) {
  ModelSpec model;
  model.layer_count = config.Size("n_layer");
  model.hidden_size = config.Size("n_embd");
  model.attention_head_count = config.Size("n_head");
  model.kv_head_count = model.attention_head_count;
  model.head_dim = DerivedHeadDim(config, model, "n_embd");
  model.ffn_hidden_size = config.Optional("n_inner", std::nullopt).value_or(4 * model.hidden_size);
  model.vocab_size = config.Size("vocab_size");
  model.mlp = GeluMlp(config, "activation_function", "gelu_new");
  model.norm = NormKind::kLayernorm;
  model.tied_embeddings = config.Flag("tie_word_embeddings", true);
  return model;
}

// GPTNeoXConfig: hidden_act="gelu", tie_word_embeddings=False. Its parallel residual has the same
// kernels and parameters as the serial one.
ModelSpec ImportGptNeox(ConfigReader& config) {
  ModelSpec model;
  model.layer_count = config.Size("num_hidden_layers");
  model.hidden_size = config.Size("hidden_size");
  model.attention_head_count = config.Size("num_attention_heads");
  model.kv_head_count = model.attention_head_count;
  model.head_dim = DerivedHeadDim(config, model, "hidden_size");
  model.ffn_hidden_size = config.Size("intermediate_size");
  model.vocab_size = config.Size("vocab_size");
  model.mlp = GeluMlp(config, "hidden_act", "gelu");
  model.norm = NormKind::kLayernorm;
  model.tied_embeddings = config.Flag("tie_word_embeddings", false);
  return model;
}

struct Family {
  std::string_view model_type;
  std::string_view architecture;  // identifies files without model_type
  ModelSpec (*import_config)(ConfigReader& config);
};

constexpr Family kFamilies[] = {
    {"aquila", "AquilaForCausalLM", ImportLlama},
    {"aquila2", "Aquila2ForCausalLM", ImportLlama},
    {"aquila3", "Aquila3ForCausalLM", ImportLlama},
    {"deepseek_v2", "DeepseekV2ForCausalLM", ImportDeepseekV2},
    {"deepseek_v3", "DeepseekV3ForCausalLM", ImportDeepseekV3},
    {"gpt2", "GPT2LMHeadModel", ImportGpt2},
    {"gpt_neox", "GPTNeoXForCausalLM", ImportGptNeox},
    {"llama", "LlamaForCausalLM", ImportLlama},
    {"mistral", "MistralForCausalLM", ImportMistral},
    {"mixtral", "MixtralForCausalLM", ImportMixtral},
    {"qwen2", "Qwen2ForCausalLM", ImportQwen2},
    {"qwen2_moe", "Qwen2MoeForCausalLM", ImportQwen2Moe},
    {"qwen3", "Qwen3ForCausalLM", ImportQwen3},
    {"qwen3_moe", "Qwen3MoeForCausalLM", ImportQwen3Moe},
};

// Returns the value that names the family: model_type, or else the first architecture, or null if
// both are absent.
Json FamilyName(const Json& config) {
  if (config.contains("model_type")) return config["model_type"];
  const Json architectures = config.value("architectures", Json::array());
  return architectures.is_array() && !architectures.empty() ? architectures.front() : Json();
}

absl::StatusOr<Family> FindFamily(const Json& config) {
  const Json name = FamilyName(config);
  std::string known;
  for (const Family& family : kFamilies) {
    if (name == family.model_type || name == family.architecture) return family;
    known += known.empty() ? "" : ", ";
    known += family.model_type;
  }
  return WithReason(InvalidFields({{.field = "model.model_type",
                                    .description = fmt::format("{}; must be one of {}",
                                                               ShownValue(name), known)}}),
                    "UNKNOWN_MODEL_FAMILY");
}

}  // namespace

bool LooksLikeHuggingFaceConfig(std::string_view json_text) {
  const Json config = Json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  return config.is_object() && (config.contains("model_type") || config.contains("architectures"));
}

absl::StatusOr<ModelSpec> ImportHuggingFaceConfig(std::string_view json_text,
                                                  std::string_view name) {
  const Json config = Json::parse(json_text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) {
    const std::string given = config.is_discarded() ? "not JSON" : ShownValue(config);
    return InvalidFields(
        {{.field = "model", .description = fmt::format("{}; must be a JSON object", given)}});
  }
  ASSIGN_OR_RETURN(const Family family, FindFamily(config));
  ConfigReader reader(config);
  ModelSpec model = family.import_config(reader);
  const std::vector<FieldViolation> violations = std::move(reader).violations();
  if (!violations.empty()) return InvalidFields(violations);
  model.name = std::string(name);
  return model;
}

}  // namespace meshwright

#include "search_space/import/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "search_space/base/shown_value.h"
#include "search_space/base/status.h"
#include "search_space/import/config_reader.h"
#include "search_space/import/families.h"
#include "search_space/import/layer_structure.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kOwnFormat =
    "write the model in Meshwright's own keys instead (layer_count, hidden_size, ffn_hidden_size, "
    "attention_head_count, kv_head_count, head_dim, vocab_size, mlp, norm, moe, mla, layers)";

absl::Status Refused(std::string_view field, std::string description) {
  return WithReason(
      InvalidFields({{.field = std::string(field), .description = std::move(description)}}),
      "UNKNOWN_MODEL_FAMILY");
}

// Python writes NaN, Infinity and -Infinity, which are not JSON. Returns the text with null in
// their place.
std::string WithoutNonFinite(std::string_view text) {
  constexpr std::array<std::string_view, 3> kWords = {"-Infinity", "Infinity", "NaN"};
  std::string out;
  bool is_quoted = false;
  for (std::size_t i = 0; i < text.size();) {
    if (is_quoted && text[i] == '\\') {
      out += text.substr(i, 2);
      i += 2;
      continue;
    }
    if (text[i] == '"') is_quoted = !is_quoted;
    const auto* word =
        is_quoted ? kWords.end() : std::ranges::find_if(kWords, [&](std::string_view w) {
          return text.substr(i).starts_with(w);
        });
    if (word == kWords.end()) {
      out += text[i++];
    } else {
      out += "null";
      i += word->size();
    }
  }
  return out;
}

Json Parsed(std::string_view text) {
  Json config = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!config.is_discarded()) return config;
  return Json::parse(WithoutNonFinite(text), nullptr, /*allow_exceptions=*/false);
}

// Returns the text of a key, or "" if it has none.
std::string TextOf(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

// Files from beside the weights that are not of a model.
struct OtherFile {
  std::string_view keys[2];  // it has both, or the first if the second is empty
  std::string_view what;
};
constexpr OtherFile kOtherFiles[] = {
    {{"peft_type", ""}, "the file of an adapter; the config.json of its base model is wanted"},
    {{"adapter_config", ""}, "the file of an adapter; the config.json of its base model is wanted"},
    {{"n_layers", "ffn_dim_multiplier"},
     "a params.json of Meta, which has no feed-forward size; the config.json of the same model "
     "from "
     "the Hugging Face hub is wanted"},
    {{"n_layers", "multiple_of"},
     "a params.json of Meta, which has no feed-forward size; the config.json of the same model "
     "from "
     "the Hugging Face hub is wanted"},
    {{"tokenizer_class", "added_tokens_decoder"},
     "a tokenizer's file; the config.json beside it is wanted"},
    {{"weight_map", ""}, "an index of weight files; the config.json beside it is wanted"},
    {{"_from_model_config", ""},
     "a file of settings for generation; the config.json beside it is wanted"},
};

const OtherFile* FindOtherFile(const Json& config) {
  const auto* found = std::ranges::find_if(kOtherFiles, [&](const OtherFile& file) {
    return config.contains(file.keys[0]) && (file.keys[1].empty() || config.contains(file.keys[1]));
  });
  return found == std::end(kOtherFiles) ? nullptr : found;
}

bool IsSizesOnly(const Json& config) {
  return config.contains("d_model") && config.contains("n_layer") && config.contains("ssm_cfg");
}

// Returns why the file is not of a decoder-only language model; "" if it may be one.
std::string WhyNoDecoder(const Json& config) {
  const auto flag = [&](const char* key) {
    const auto found = config.find(key);
    return found != config.end() && found->is_boolean() && found->get<bool>();
  };
  if (flag("is_encoder_decoder")) return "a model with an encoder and a decoder";
  const Json architectures = config.value("architectures", Json::array());
  if (!architectures.is_array() || architectures.empty() || !architectures.front().is_string()) {
    return "";
  }
  const auto name = architectures.front().get<std::string>();
  for (const std::string_view head :
       {"ForSequenceClassification", "ForTokenClassification", "ForQuestionAnswering",
        "ForMaskedLM", "ForImageClassification", "ForSpeechSeq2Seq", "ForPreTraining"}) {
    if (name.ends_with(head)) return name + ", which has no language-model head";
  }
  return "";
}

// Returns the configuration of the language model inside a larger one, and its path.
std::pair<const Json*, std::string> LanguagePart(const Json& config) {
  for (const char* key : {"thinker_config", "text_config", "language_config", "llm_config"}) {
    const auto found = config.find(key);
    if (found == config.end() || !found->is_object()) continue;
    auto [part, path] = LanguagePart(*found);
    return {part, path.empty() ? std::string(key) : std::string(key) + "." + path};
  }
  return {&config, ""};
}

constexpr bool IsGelu(std::string_view activation) {
  return activation == "gelu" || activation == "gelu_new" || activation == "gelu_fast" ||
         activation == "gelu_pytorch_tanh" || activation == "gelu_python";
}

void ReadActivation(ConfigReader& config, const Family& family, ImportedModel& out) {
  const auto activation =
      config.Text({"hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act"});
  out.model.mlp = family.mlp;
  if (!activation.has_value()) return;
  const bool is_silu = *activation == "silu" || *activation == "swish";
  const bool is_squared =
      *activation == "relu2" || *activation == "relu" || *activation == "squared_relu";
  if (!IsGelu(*activation) && !is_silu && !is_squared) {
    const char* key =
        config.Find({"hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act"});
    config.Reject(key, "must be silu, swish, relu, relu2 or a gelu");
    return;
  }
  if (is_squared) {
    out.notes.push_back(fmt::format(
        "the activation {} is priced as a gelu, which moves the same bytes", *activation));
  }
  if (family.mlp == MlpKind::kGelu) return;
  out.model.mlp = is_silu ? MlpKind::kSwiglu : MlpKind::kGeglu;
}

// Returns hidden size / heads, which must be a whole number if no head size is stated.
int DerivedHeadDim(ConfigReader& config, const ModelSpec& model) {
  if (model.attention_head_count == 0) return 0;
  if (model.hidden_size % model.attention_head_count != 0) {
    const char* key = config.Find({"hidden_size", "n_embd", "d_model"});
    config.Reject(key == nullptr ? "hidden_size" : key,
                  fmt::format("must be a multiple of the {} attention heads when no head size is "
                              "stated",
                              model.attention_head_count));
  }
  return model.hidden_size / model.attention_head_count;
}

int ReadKvHeads(ConfigReader& config, const Family& family, const ModelSpec& model) {
  const bool states = config.config().contains("num_key_value_heads");
  auto count =
      config.Integer({"num_key_value_heads", "multi_query_group_num", "num_attention_groups"});
  const auto falcon = config.Integer({"num_kv_heads", "n_head_kv"});
  config.Object("attn_config", [&](ConfigReader& own) {
    if (!count.has_value()) count = own.Integer({"kv_n_heads"});
    for (const char* key : {"alibi", "attn_type", "qk_ln", "rope", "attn_impl", "clip_qkv",
                            "rope_theta", "attn_pdrop"}) {
      own.Ignore(key);
    }
  });
  // Falcon: the count holds only in the new architecture; otherwise one head, or as many as heads.
  const auto is_new = config.Flag({"new_decoder_architecture"});
  const auto is_single = config.Flag({"multi_query", "multi_query_attention"});
  if (is_new.value_or(false)) return falcon.value_or(model.attention_head_count);
  if (is_single.value_or(false)) return count.value_or(1);
  if (is_single.has_value() && is_new.has_value()) return model.attention_head_count;
  if (count.has_value()) return *count;
  if (falcon.has_value()) return *falcon;
  return family.kv_head_count > 0 && !states ? family.kv_head_count : model.attention_head_count;
}

constexpr Keys kFfnSizes = {"intermediate_size_mlp",
                            "shared_intermediate_size",
                            "intermediate_size",
                            "ffn_hidden_size",
                            "n_inner",
                            "ffn_dim"};

// Returns the width of the dense feed-forward. Classes without a gate take four times the hidden
// size if the file does not state one.
int ReadFfnSize(ConfigReader& config, const Family& family, const ModelSpec& model) {
  if (config.Find(kFfnSizes) != nullptr) return config.Integer(kFfnSizes).value_or(0);
  if (family.mlp != MlpKind::kGelu) return config.Size({"intermediate_size"});
  const auto ratio = config.Number({"expansion_ratio"});
  return static_cast<int>(std::min(ratio.value_or(4) * model.hidden_size, 1e8));
}

void ReadBiases(ConfigReader& config, const Family& family, ModelSpec& model) {
  const auto all = config.Flag({"attention_bias", "use_qkv_bias", "qkv_bias", "add_qkv_bias"});
  const auto any = config.Flag({"bias", "use_bias", "add_bias_linear"});
  model.qkv_bias =
      model.norm == NormKind::kRmsnorm && (all.value_or(family.qkv_bias) || any.value_or(false));
  model.qk_norm =
      config.Flag({"use_qk_norm", "qk_layernorm", "use_qk_layernorm"}).value_or(family.qk_norm);
  model.attention_output_gate = config.Flag({"attn_output_gate"}).value_or(family.output_gate);
  model.post_norms = family.post_norms;
}

void ReadRotary(ConfigReader& config, ModelSpec& model) {
  model.rotary_base = config.Number({"rope_theta", "rotary_emb_base"});
  model.norm_epsilon = config.Number({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                      "layernorm_epsilon", "norm_eps", "norm_epsilon"});
  config.Object("rope_parameters", [&](ConfigReader& own) {
    if (!model.rotary_base.has_value()) model.rotary_base = own.Number({"rope_theta"});
  });
}

// The plain sizes, which every decoder has.
void ReadSizes(ConfigReader& config, const Family& family, ImportedModel& out) {
  ModelSpec& model = out.model;
  model.layer_count = config.Size({"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  model.hidden_size = config.Size({"hidden_size", "n_embd", "d_model", "n_embed"});
  model.norm = family.norm;
  const bool has_heads = config.Find({"num_attention_heads", "n_head", "n_heads"}) != nullptr;
  const bool is_state_space = config.Has("state_size") && config.Has("conv_kernel");
  if (has_heads || !is_state_space) {
    const bool is_default = !has_heads && family.attention_head_count > 0;
    model.attention_head_count = is_default
                                     ? family.attention_head_count
                                     : config.Size({"num_attention_heads", "n_head", "n_heads"});
    model.kv_head_count = ReadKvHeads(config, family, model);
    const auto head_dim = config.Integer({"head_dim", "attention_head_dim", "kv_channels"});
    const bool states = config.config().contains("head_dim");
    model.head_dim = head_dim.has_value()             ? *head_dim
                     : family.head_dim > 0 && !states ? family.head_dim
                                                      : DerivedHeadDim(config, model);
  }
  model.vocab_size = config.Integer({"padded_vocab_size"}).value_or(family.vocab_size);
  if (config.Has("vocab_size") || model.vocab_size == 0) {
    const int stated = config.Has("padded_vocab_size") ? 0 : config.Size({"vocab_size"});
    if (stated > 0) model.vocab_size = stated;
  }
  ReadActivation(config, family, out);
  model.tied_embeddings =
      config.Flag({"tie_word_embeddings", "tie_embeddings"}).value_or(family.tied_embeddings);
  ReadBiases(config, family, model);
  ReadRotary(config, model);
  if (family.position_count > 0) {
    model.position_count =
        config.Integer({"n_positions", "max_position_embeddings"}).value_or(family.position_count);
  }
  model.mtp_layer_count =
      config.Integer({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"})
          .value_or(0);
}

// Keys that change the layers in ways that a ModelSpec cannot describe, with what they do.
struct Unsupported {
  const char* key;
  std::string_view what;
};
constexpr Unsupported kUnsupported[] = {
    {"altup_num_inputs", "alternating updates of several residual streams"},
    {"hidden_size_per_layer_input", "embeddings of each layer's own"},
    {"num_kv_shared_layers", "layers that share keys and values"},
    {"use_cla", "layers that share keys and values"},
    {"zero_expert_num", "experts that compute nothing, beside two attentions a layer"},
    {"share_q_dim", "queries of low rank"},
    {"word_embed_proj_dim", "embeddings of another width than the layers"},
    {"use_mixed_mlp_moe", "a feed-forward beside the experts"},
    {"mod_layers", "layers that skip tokens"},
};

bool IsActive(const Json& value, const ModelSpec& model) {
  if (value.is_null() || value == false || value == 0 || value == 0.0) return false;
  return !(value.is_number_integer() && value == model.hidden_size);
}

// Words in the names of keys that say how a model is built.
constexpr std::string_view kStructureWords[] = {
    "layer",   "expert",    "head", "kv_",   "_kv",   "window",      "interval",     "period",
    "pattern", "mamba",     "ssm",  "conv",  "rank",  "hidden_size", "intermediate", "inner",
    "ffn",     "attn_type", "_dim", "chunk", "proj_", "share",       "moe_",         "state_size"};
// Keys with such words that change no size and no layer.
constexpr std::string_view kHarmless[] = {"vocab_size_per_layer_input",
                                          "layer_norm_eps",
                                          "layer_norm_epsilon",
                                          "layernorm_epsilon",
                                          "layerdrop",
                                          "head_mask",
                                          "pruned_heads",
                                          "output_hidden_states",
                                          "chunk_size_feed_forward",
                                          "num_beam_groups",
                                          "cross_attention_hidden_size",
                                          "add_cross_attention",
                                          "is_decoder",
                                          "router_aux_loss_coef",
                                          "output_router_logits",
                                          "norm_topk_prob",
                                          "routed_scaling_factor",
                                          "n_group",
                                          "topk_group",
                                          "scoring_func",
                                          "topk_method",
                                          "seq_aux",
                                          "aux_loss_alpha",
                                          "ep_size",
                                          "moe_router_topk_scaling_factor",
                                          "hidden_dropout",
                                          "hidden_dropout_prob",
                                          "attention_dropout",
                                          "attention_probs_dropout_prob",
                                          "resid_pdrop",
                                          "embd_pdrop",
                                          "attn_pdrop",
                                          "expert_capacity",
                                          "moe_router_num_expert_groups",
                                          "use_parallel_residual",
                                          "parallel_attn",
                                          "apply_residual_connection_post_layernorm",
                                          "do_layer_norm_before",
                                          "norm_head",
                                          "post_layer_norm",
                                          "first_k_dense_replace",
                                          "postnorm",
                                          "mlp_bias",
                                          "partial_rotary_factor",
                                          "rotary_dim",
                                          "rotary_pct",
                                          "num_experts_per_tok",
                                          "router_jitter_noise",
                                          "input_jitter_noise",
                                          "moe_router_enable_expert_bias",
                                          "mamba_conv_bias",
                                          "mamba_proj_bias",
                                          "mamba_rms_norm",
                                          "use_conv_bias",
                                          "mamba_norm_before_gate",
                                          "mamba_chunk_size",
                                          "mamba_hidden_act",
                                          "mamba_ssm_cache_dtype",
                                          "mamba_ssm_dtype",
                                          "ssm_dtype",
                                          "chunk_size",
                                          "use_mamba_kernels",
                                          "rescale_prenorm_residual",
                                          "residual_in_fp32",
                                          "lm_head_bias",
                                          "lm_head_multiplier",
                                          "query_pre_attn_scalar",
                                          "attn_logit_softcapping",
                                          "layer_norm_bias",
                                          "head_type",
                                          "mlp_type",
                                          "norm_type",
                                          "attn_type",
                                          "mla_use_nope",
                                          "moe_router_pre_softmax",
                                          "router_layer_norm",
                                          "full_attn_layers",
                                          "add_swa_attention_sink_bias",
                                          "qk_norm_type",
                                          "add_full_attention_sink_bias",
                                          "no_rope_layer_interval",
                                          "no_rope_layers",
                                          "layer_types",
                                          "qk_layernorm",
                                          "layernorm_num_groups",
                                          "moe_dtype",
                                          "moe_router_use_sigmoid",
                                          "share_embeddings",
                                          "interleaved_sliding_window",
                                          "router_num_group",
                                          "num_heads",
                                          "qk_head_dim",
                                          "index_n_heads",
                                          "moe_layer_use_mod",
                                          "logits_to_keep",
                                          "num_logits_to_keep",
                                          "use_routing_bias",
                                          "layer_group_size",
                                          "layer_scale",
                                          "layernorm_bias",
                                          "moe_shared_expert_overlap",
                                          "attention_head_type",
                                          "hidden_act",
                                          "time_step_rank",
                                          "dense_attention_every_n_layers",
                                          "max_window_layers",
                                          "moe_aux_loss_coeff",
                                          "moe_z_loss_coeff",
                                          "attn_head_dim",
                                          "tie_encoder_decoder",
                                          "encoder_no_repeat_ngram_size",
                                          "global_attn_every_n_layers_comment",
                                          "attn_implementation",
                                          "_attn_implementation",
                                          "moe_router_score_function",
                                          "enable_moe_block",
                                          "head_dtype"};

bool MayChangeLayers(std::string_view key) {
  if (std::ranges::find(kHarmless, key) != std::end(kHarmless)) return false;
  return std::ranges::any_of(kStructureWords,
                             [&](std::string_view word) { return key.find(word) != key.npos; });
}

// Rejects active keys that may change the layers and that nobody has read.
void RejectUnread(ConfigReader& config, const ModelSpec& model) {
  for (const Unsupported& one : kUnsupported) {
    if (!config.Has(one.key) || !IsActive(config.config()[one.key], model)) continue;
    config.Reject(one.key,
                  fmt::format("it means {}, which is not modelled; {}", one.what, kOwnFormat));
    config.Ignore(one.key);
  }
  for (const auto& [key, value] : config.config().items()) {
    if (config.read().contains(key) || !IsActive(value, model) || !MayChangeLayers(key)) continue;
    if (value.is_object() || value.is_string()) continue;
    const bool is_unsupported =
        std::ranges::any_of(kUnsupported, [&](const Unsupported& one) { return key == one.key; });
    if (is_unsupported) continue;
    config.Reject(key.c_str(),
                  fmt::format("the meaning of this key is not known, and it may change "
                              "the layers; {}",
                              kOwnFormat));
  }
}

// What the file says about parts and forms that training does not use.
void AddNotes(const Json& config, const std::string& path, std::string_view model_type,
              ImportedModel& out) {
  if (!path.empty()) {
    out.notes.push_back(fmt::format(
        "the language model of {} was read; towers for pictures or sound are left out", path));
  }
  if (config.contains("quantization_config") || config.contains("compression_config")) {
    out.notes.emplace_back(
        "the file is of quantized weights; training is planned in the workload's precision");
  }
  if (!IsKnownFamily(model_type) && !model_type.empty()) {
    out.notes.push_back(
        fmt::format("the model type {} is not known; its keys were read as they are usually meant",
                    model_type));
  }
  if (HasUnconfirmedLayers(out.model)) {
    out.notes.emplace_back(
        "the time of linear attention, state spaces and sparse attention rests on their published "
        "forms; no measured run has confirmed it");
  }
}

// The configuration of the mamba_ssm package has neither a type nor the usual keys.
Json FromMambaPackage(const Json& config) {
  const Json ssm = config["ssm_cfg"].is_object() ? config["ssm_cfg"] : Json::object();
  const auto size = [&](const Json& from, const char* key, int absent) {
    const auto found = from.find(key);
    return found != from.end() && found->is_number_integer() ? found->get<int>() : absent;
  };
  const int hidden = size(config, "d_model", 0);
  const int head_dim = std::max(1, size(ssm, "headdim", 64));
  const int unit = std::max(1, size(config, "pad_vocab_size_multiple", 1));
  const int vocabulary = size(config, "vocab_size", 0);
  return {{"model_type", "mamba2"},
          {"hidden_size", hidden},
          {"num_hidden_layers", size(config, "n_layer", 0)},
          {"vocab_size", (vocabulary + unit - 1) / unit * unit},
          {"tie_word_embeddings", config.value("tie_embeddings", true)},
          {"num_heads", size(ssm, "expand", 2) * hidden / head_dim},
          {"head_dim", head_dim},
          {"n_groups", size(ssm, "ngroups", 1)},
          {"state_size", size(ssm, "d_state", 128)},
          {"conv_kernel", size(ssm, "d_conv", 4)}};
}

// Returns the first class that the file names, or "".
std::string ArchitectureOf(const Json& config) {
  const Json architectures = config.value("architectures", Json::array());
  const bool has_one =
      architectures.is_array() && !architectures.empty() && architectures.front().is_string();
  return has_one ? architectures.front().get<std::string>() : "";
}

// Returns the model type that a class's name says: "deepseek_v3" for DeepseekV3ForCausalLM. It is
// one of the table, or "".
std::string TypeOfArchitecture(std::string_view architecture) {
  std::string plain;
  for (const char c : architecture.substr(0, architecture.find("For"))) {
    if (c != '_') plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  for (const std::string_view suffix : {"lmheadmodel", "model"}) {
    if (plain.ends_with(suffix)) plain.resize(plain.size() - suffix.size());
  }
  return std::string(FamilyWord(plain));
}

// Returns the language model's configuration with the keys that only the whole file states.
Json WithOuterKeys(const Json& text, const Json& whole) {
  Json config = text;
  for (const char* key : {"tie_word_embeddings"}) {
    if (!config.contains(key) && whole.contains(key)) config[key] = whole[key];
  }
  return config;
}

bool NeedsFfn(const ModelSpec& model) {
  if (model.layers.empty()) {
    return !model.moe.has_value() || model.moe->first_dense_layer_count > 0;
  }
  return std::ranges::any_of(model.layers, [](const LayerRun& run) {
    return run.kind.feed_forward == FeedForwardKind::kDense;
  });
}

absl::StatusOr<ImportedModel> Read(const Json& whole, std::string_view name) {
  const auto [text, path] = LanguagePart(whole);
  const Json config = IsSizesOnly(*text) ? FromMambaPackage(*text) : WithOuterKeys(*text, whole);
  std::string model_type = TextOf(config, "model_type");
  const std::string architecture = ArchitectureOf(whole);
  // The class that builds the model counts for more than the name of its configuration.
  if (const std::string built = TypeOfArchitecture(architecture);
      path.empty() && !built.empty() && (model_type.empty() || !IsKnownFamily(model_type))) {
    model_type = built;
  }
  if (model_type.empty() && architecture.empty() && !IsSizesOnly(*text)) {
    const std::string given =
        config.contains("model_type") ? ShownValue(config["model_type"]) : "missing";
    return Refused("model.model_type",
                   fmt::format("{}; must be a string of a config.json, or {}", given, kOwnFormat));
  }
  ImportedModel out;
  ConfigReader reader(config, path.empty() ? "model" : "model." + path);
  const Family& family = FamilyOf(model_type);
  ReadSizes(reader, family, out);
  ReadLayers(reader, family, out.model);
  if (NeedsFfn(out.model)) {
    out.model.ffn_hidden_size = ReadFfnSize(reader, family, out.model);
  }
  reader.Ignore("intermediate_size");  // files state it even if no layer has it
  RejectUnread(reader, out.model);
  const std::vector<FieldViolation> violations = std::move(reader).violations();
  if (!violations.empty()) return InvalidFields(violations);
  out.model.name = std::string(name);
  AddNotes(whole, path, model_type, out);
  return out;
}

}  // namespace

bool LooksLikeHuggingFaceConfig(std::string_view json_text) {
  const Json config = Parsed(json_text);
  if (!config.is_object()) return false;
  return config.contains("model_type") || config.contains("architectures") || IsSizesOnly(config) ||
         FindOtherFile(config) != nullptr;
}

absl::StatusOr<ImportedModel> ImportHuggingFaceConfig(std::string_view json_text,
                                                      std::string_view name) {
  const Json config = Parsed(json_text);
  if (!config.is_object()) {
    const std::string given = config.is_discarded() ? "not JSON" : ShownValue(config);
    return InvalidFields(
        {{.field = "model", .description = fmt::format("{}; must be a JSON object", given)}});
  }
  if (const OtherFile* other = FindOtherFile(config); other != nullptr) {
    return Refused("model", fmt::format("is {}", other->what));
  }
  if (const std::string why = WhyNoDecoder(config); !why.empty()) {
    return Refused(
        "model", fmt::format("is {}; only decoders that predict the next token are planned", why));
  }
  return Read(config, name);
}

}  // namespace meshwright

#include "search_space/import/hugging_face.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstdint>
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
#include "search_space/import/model_forms.h"
#include "search_space/import/other_files.h"
#include "search_space/import/unread_keys.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

using Json = nlohmann::json;

constexpr int kMaxDepth = 32;

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

// Parses a configuration. Deeper parts than any configuration has are dropped, so that whatever
// walks it needs little stack.
Json Parsed(std::string_view text) {
  const auto is_shallow = [](int depth, Json::parse_event_t /*event*/, Json& /*part*/) {
    return depth < kMaxDepth;
  };
  Json config = Json::parse(text, is_shallow, /*allow_exceptions=*/false);
  if (!config.is_discarded()) return config;
  return Json::parse(WithoutNonFinite(text), is_shallow, /*allow_exceptions=*/false);
}

// Returns the text of a key, or "" if it has none.
std::string TextOf(const Json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_string() ? found->get<std::string>() : "";
}

bool IsSizesOnly(const Json& config) {
  return config.contains("d_model") && config.contains("n_layer") && config.contains("ssm_cfg") &&
         !config.contains("model_type");
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
  if (config.Find(kFfnSizes) != nullptr) {
    const int stated = config.Integer(kFfnSizes).value_or(0);
    return family.counts_gate_in_ffn ? stated / 2 : stated;
  }
  if (family.mlp != MlpKind::kGelu) return config.Size({"intermediate_size"});
  const auto ratio = config.Number({"expansion_ratio"});
  return static_cast<int>(std::min(ratio.value_or(4) * model.hidden_size, 1e8));
}

// Reads the stretching of rotary positions from the object of either name. Kinds without launch
// flags are left out.
void ReadRopeScaling(ConfigReader& config, const char* key, ModelSpec& model) {
  if (!config.Has(key) || !config.config()[key].is_object()) return;
  config.Object(key, [&](ConfigReader& own) {
    const auto word = own.Text({"rope_type", "type"});
    const auto kind = ParseChoice<RopeScalingKind>(word.value_or(""));
    const double factor = own.Number({"factor"}).value_or(0);
    if (!kind.has_value() || factor < 1) return;
    model.rope_scaling = RopeScaling{
        .kind = *kind,
        .factor = factor,
        .original_position_count = own.Integer({"original_max_position_embeddings"}).value_or(0)};
    if (*kind != RopeScalingKind::kYarn) return;
    model.rope_scaling->beta_fast = own.Number({"beta_fast"});
    model.rope_scaling->beta_slow = own.Number({"beta_slow"});
    model.rope_scaling->mscale = own.Number({"mscale"});
    model.rope_scaling->mscale_all_dim = own.Number({"mscale_all_dim"});
  });
}

void ReadRotary(ConfigReader& config, ModelSpec& model) {
  model.rotary_base = config.Number({"rope_theta", "rotary_emb_base"});
  model.norm_epsilon = config.Number({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon",
                                      "layernorm_epsilon", "norm_eps", "norm_epsilon"});
  config.Object("rope_parameters", [&](ConfigReader& own) {
    if (!model.rotary_base.has_value()) model.rotary_base = own.Number({"rope_theta"});
  });
  for (const char* key : {"rope_scaling", "rope_parameters"}) ReadRopeScaling(config, key, model);
}

// Reads how the router chooses, for launch flags.
void ReadRouter(ConfigReader& config, ModelSpec& model) {
  if (!model.moe.has_value()) return;
  MoeSpec& moe = *model.moe;
  const auto score = config.Text({"scoring_func"});
  if (score.has_value()) moe.router_score = ParseChoice<RouterScore>(*score);
  const auto factor = config.Number({"routed_scaling_factor"});
  if (factor.value_or(0) > 0) moe.routed_scaling_factor = factor;
  // DeepSeek calls its choice without an auxiliary loss so; its scores are sigmoid.
  const bool has_bias = config.Text({"topk_method"}) == "noaux_tc";
  if (has_bias && !score.has_value()) moe.router_score = RouterScore::kSigmoid;
  moe.router_bias = has_bias && moe.router_score == RouterScore::kSigmoid;
}

// The plain sizes, which every decoder has.
void ReadSizes(ConfigReader& config, const Family& family, ImportedModel& out) {
  ModelSpec& model = out.model;
  model.layer_count = config.Size({"num_hidden_layers", "n_layer", "num_layers", "n_layers"});
  model.hidden_size = config.Size({"hidden_size", "n_embd", "d_model", "n_embed"});
  // An unknown type has the norm whose epsilon its file states.
  const bool is_layernorm = family.model_types.empty() && !config.Has("rms_norm_eps") &&
                            config.Find({"layer_norm_eps", "layer_norm_epsilon"}) != nullptr;
  model.norm = is_layernorm ? NormKind::kLayernorm : family.norm;
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
  ReadActivation(config, family, model, out.notes);
  model.tied_embeddings =
      config.Flag({"tie_word_embeddings", "tie_embeddings"}).value_or(family.tied_embeddings);
  ReadBiases(config, family, model);
  model.qk_norm = config.Flag({"use_qk_norm", "qk_layernorm", "use_qk_layernorm", "qk_norm"})
                      .value_or(family.qk_norm);
  model.attention_output_gate = config.Flag({"attn_output_gate"}).value_or(family.output_gate);
  ReadForms(config, family, model);
  ReadRotary(config, model);
  if (family.position_count > 0) {
    model.position_count =
        config.Integer({"n_positions", "max_position_embeddings"}).value_or(family.position_count);
  }
  model.mtp_layer_count =
      config.Integer({"num_nextn_predict_layers", "mtp_num_hidden_layers", "num_mtp_modules"})
          .value_or(0);
}

// Adds notes about what a file of an unknown type leaves open.
void AddAssumptions(const Json& config, const std::string& path, ImportedModel& out) {
  if (!path.empty()) return;  // the part's keys are not these
  if (!config.contains("hidden_act") && !config.contains("hidden_activation")) {
    out.notes.emplace_back(
        "the file states no activation; a feed-forward with a SiLU gate was read");
  }
  if (!config.contains("tie_word_embeddings")) {
    out.notes.emplace_back(
        "the file does not say if embedding and output layer share a matrix; they were counted "
        "apart");
  }
}

// Adds notes about parts and forms of the model that training does not use.
void AddNotes(const Json& config, const std::string& path, std::string_view model_type,
              ImportedModel& out) {
  if (!path.empty()) {
    out.notes.push_back(fmt::format(
        "the language model of {} was read; towers for pictures or sound are left out", path));
  }
  if (config.contains("quantization_config") || config.contains("compression_config")) {
    out.notes.emplace_back(
        "the file describes quantized weights; training is planned in the workload's precision");
  }
  if (!IsKnownFamily(model_type) && !model_type.empty()) {
    out.notes.push_back(
        fmt::format("the model type {} is not known; its keys were read as they are usually meant",
                    model_type));
    AddAssumptions(config, path, out);
  }
  if (config.contains("zero_expert_num") && out.model.layers.size() > 1) {
    out.notes.push_back(fmt::format(
        "each layer of the file was read as three, {} in all: two attentions with a dense "
        "feed-forward each, and the experts between them, of which {} of a token's choices compute "
        "on average; the experts are not hidden behind the second attention",
        out.model.layer_count, out.model.moe->experts_per_token));
  }
  if (HasUnconfirmedLayers(out.model)) {
    out.notes.emplace_back(
        "the time of linear attention, state spaces and sparse attention rests on their published "
        "forms; no measured run has confirmed it");
  }
}

// Returns the configuration of the mamba_ssm package, which has neither a type nor the usual keys,
// in the keys of transformers. Values that are no sizes stay as they are, to be rejected by their
// reader.
absl::StatusOr<Json> FromMambaPackage(const Json& config) {
  const Json ssm = config["ssm_cfg"].is_object() ? config["ssm_cfg"] : Json::object();
  const bool is_mamba2 = ssm.value("layer", Json()) == "Mamba2";
  const Json attention = config.value("attn_layer_idx", Json::array());
  const Json feed_forward = config.value("d_intermediate", Json(0));
  if (!is_mamba2 || !attention.empty() || feed_forward != 0) {
    return Refused("model.ssm_cfg",
                   fmt::format("{}; only models whose layers are all Mamba2 are read, {}",
                               ShownValue(config["ssm_cfg"]), kOwnFormat));
  }
  const auto size = [](const Json& from, const char* key, std::int64_t absent) {
    const auto found = from.find(key);
    const bool is_size = found != from.end() && found->is_number_integer() &&
                         found->get<double>() > 0 && found->get<double>() < 1e8;
    return is_size ? found->get<std::int64_t>() : absent;
  };
  const std::int64_t hidden = size(config, "d_model", 0);
  const std::int64_t head_dim = size(ssm, "headdim", 64);
  const std::int64_t unit = size(config, "pad_vocab_size_multiple", 1);
  const std::int64_t vocabulary = size(config, "vocab_size", 0);
  const Json tied = config.value("tie_embeddings", Json(true));
  return Json{{"model_type", "mamba2"},
              {"hidden_size", hidden},
              {"num_hidden_layers", config["n_layer"]},
              {"vocab_size", (vocabulary + unit - 1) / unit * unit},
              {"tie_word_embeddings", tied.is_null() ? Json(true) : tied},
              {"num_heads", size(ssm, "expand", 2) * hidden / head_dim},
              {"head_dim", head_dim},
              {"n_groups", size(ssm, "ngroups", 1)},
              {"state_size", size(ssm, "d_state", 128)},
              {"conv_kernel", size(ssm, "d_conv", 4)}};
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

absl::StatusOr<ImportedModel> Read(const Json& whole, std::string_view name) {
  const auto [text, path] = LanguagePart(whole);
  Json config = WithOuterKeys(*text, whole);
  if (IsSizesOnly(*text)) {
    ASSIGN_OR_RETURN(config, FromMambaPackage(*text));
  }
  std::string model_type = TextOf(config, "model_type");
  // A part's own class says more than that of the whole.
  const bool has_own = model_type.empty() && !ArchitectureOf(config).empty();
  const std::string architecture = ArchitectureOf(has_own ? config : whole);
  // The class that builds the model counts for more than the name of its configuration.
  if (const std::string built = TypeOfArchitecture(architecture);
      (path.empty() || has_own) && !built.empty() &&
      (model_type.empty() || !IsKnownFamily(model_type))) {
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
  ReadRouter(reader, out.model);
  if (NeedsFfnSize(out.model)) {
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
         !WhatOtherFile(config).empty();
}

absl::StatusOr<ImportedModel> ImportHuggingFaceConfig(std::string_view json_text,
                                                      std::string_view name) {
  const Json config = Parsed(json_text);
  if (!config.is_object()) {
    const std::string given = config.is_discarded() ? "not JSON" : ShownValue(config);
    return InvalidFields(
        {{.field = "model", .description = fmt::format("{}; must be a JSON object", given)}});
  }
  if (const std::string_view what = WhatOtherFile(config); !what.empty()) {
    return Refused("model", fmt::format("is {}", what));
  }
  if (const std::string why = WhyNoDecoder(config); !why.empty()) {
    return Refused(
        "model", fmt::format("is {}; only decoders that predict the next token are planned", why));
  }
  return Read(config, name);
}

}  // namespace meshwright

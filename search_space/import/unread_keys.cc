#include "search_space/import/unread_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

namespace meshwright {
namespace {

using Json = nlohmann::json;

// Keys that change the layers in ways that a ModelSpec cannot describe, with what they do.
struct Unsupported {
  const char* key;
  std::string_view what;
};
constexpr Unsupported kUnsupported[] = {
    {"altup_num_inputs", "alternating updates of several residual streams"},
    {"hc_mult", "several residual streams"},
    {"hidden_size_per_layer_input", "embeddings of each layer's own"},
    {"num_kv_shared_layers", "layers that share keys and values"},
    {"use_cla", "layers that share keys and values"},
    {"laurel_rank", "a branch of low rank beside the attention"},
    {"share_q_dim", "queries of low rank"},
    {"word_embed_proj_dim", "embeddings of another width than the layers"},
    {"mod_layers", "layers that skip tokens"},
    {"total_ut_steps", "layers that run several times"},
    {"parallel_attn_mlp_res", "a dense feed-forward beside the layer's experts"},
    {"residual_moe", "a dense feed-forward beside the layer's experts"},
    {"compress_ratios", "attention over compressed tokens"},
    {"mla_use_output_gate", "a gate on the output of latent attention"},
    {"block_configs", "layers of sizes of their own"},
    {"layer_group_size", "groups of layers with linear attention"},
    {"global_attn_idx", "a list of layers without a window"},
    {"moe_config", "experts in an object of their own"},
};

// Words in the names of keys that say how a model is built.
constexpr std::string_view kStructureWords[] = {
    "layer",   "expert",    "head", "kv_",   "_kv",   "window",      "interval",     "period",
    "pattern", "mamba",     "ssm",  "conv",  "rank",  "hidden_size", "intermediate", "inner",
    "ffn",     "attn_type", "_dim", "chunk", "proj_", "share",       "moe_",         "state_size"};
// Words and beginnings of names that say that a key is about something else: how weights start and
// are trained, what routes tokens, and towers and heads beside the language model.
constexpr std::string_view kOtherWords[] = {"norm", "dropout", "loss",    "init",   "eps",
                                            "scal", "bias",    "router",  "dtype",  "jitter",
                                            "coef", "aux",     "kernels", "softcap"};
constexpr std::string_view kOtherBeginnings[] = {"mm_",    "vision_", "audio_", "vit_",    "image_",
                                                 "video_", "tts_",    "pixel_", "summary_"};
// Keys with words of structure that change neither a size nor a layer.
constexpr std::string_view kHarmless[] = {"vocab_size_per_layer_input",
                                          "layerdrop",
                                          "head_mask",
                                          "pruned_heads",
                                          "output_hidden_states",
                                          "chunk_size_feed_forward",
                                          "num_beam_groups",
                                          "cross_attention_hidden_size",
                                          "add_cross_attention",
                                          "is_decoder",
                                          "n_group",
                                          "topk_group",
                                          "ep_size",
                                          "resid_pdrop",
                                          "embd_pdrop",
                                          "attn_pdrop",
                                          "expert_capacity",
                                          "moe_capacity",
                                          "num_expert_group",
                                          "use_parallel_residual",
                                          "parallel_attn",
                                          "apply_residual_connection_post_layernorm",
                                          "do_layer_norm_before",
                                          "post_layer_norm",
                                          "first_k_dense_replace",
                                          "partial_rotary_factor",
                                          "rotary_dim",
                                          "rotary_pct",
                                          "num_experts_per_tok",
                                          "mamba_chunk_size",
                                          "mamba_hidden_act",
                                          "chunk_size",
                                          "residual_in_fp32",
                                          "lm_head",
                                          "lm_head_multiplier",
                                          "query_pre_attn_scalar",
                                          "head_type",
                                          "mlp_type",
                                          "attn_type",
                                          "mla_use_nope",
                                          "full_attn_layers",
                                          "no_rope_layer_interval",
                                          "no_rope_layers",
                                          "layer_types",
                                          "share_embeddings",
                                          "router_num_group",
                                          "qk_head_dim",
                                          "index_n_heads",
                                          "logits_to_keep",
                                          "num_logits_to_keep",
                                          "moe_shared_expert_overlap",
                                          "attention_head_type",
                                          "hidden_act",
                                          "max_window_layers",
                                          "attn_head_dim",
                                          "tie_encoder_decoder",
                                          "encoder_no_repeat_ngram_size",
                                          "attn_implementation",
                                          "_attn_implementation",
                                          "enable_moe_block",
                                          "mlp_intermediate_size",
                                          "mtp_transformer_layers",
                                          "moe_score_func",
                                          "use_mixed_mlp_moe",
                                          "scoring_func"};
// Keys that only repeat what another key, which is read, says.
struct Repeated {
  std::string_view key;
  const char* by;
};
constexpr Repeated kRepeated[] = {
    {"sliding_window_size", "sliding_window"},     {"sliding_window_pattern", "layer_types"},
    {"_sliding_window_pattern", "layer_types"},    {"layer_switch", "layer_types"},
    {"global_attn_every_n_layers", "layer_types"}, {"num_heads", "num_attention_heads"},
    {"moe_layers", "interleave_moe_layer_step"}};

bool IsActive(const Json& value, const ModelSpec& model) {
  if (value.is_null() || value == false || value == 0 || value == 0.0) return false;
  if ((value.is_object() || value.is_array()) && value.empty()) return false;
  return !(value.is_number_integer() && value == model.hidden_size);
}

bool IsHarmless(const ConfigReader& config, std::string_view key) {
  if (std::ranges::find(kHarmless, key) != std::end(kHarmless)) return true;
  if (key == "cla_share_factor") return true;  // without use_cla, which is refused
  const auto starts = [&](std::string_view text) { return key.starts_with(text); };
  const auto has = [&](std::string_view word) { return key.find(word) != key.npos; };
  if (std::ranges::any_of(kOtherBeginnings, starts)) return true;
  if (std::ranges::any_of(kOtherWords, has)) return true;
  return std::ranges::any_of(
      kRepeated, [&](const Repeated& one) { return one.key == key && config.Has(one.by); });
}

bool SaysHowItIsBuilt(std::string_view key) {
  return std::ranges::any_of(kStructureWords,
                             [&](std::string_view word) { return key.find(word) != key.npos; });
}

}  // namespace

void RejectUnread(ConfigReader& config, const ModelSpec& model) {
  for (const Unsupported& one : kUnsupported) {
    if (config.read().contains(one.key)) continue;  // in a form that is understood
    if (!config.Has(one.key) || !IsActive(config.config()[one.key], model)) continue;
    config.Reject(one.key,
                  fmt::format("it means {}, which is not modelled; {}", one.what, kOwnFormat));
    config.Ignore(one.key);
  }
  for (const auto& [key, value] : config.config().items()) {
    if (config.read().contains(key) || !IsActive(value, model)) continue;
    if (!SaysHowItIsBuilt(key) || IsHarmless(config, key)) continue;
    if (value.is_string() && key.find("pattern") == key.npos) continue;
    config.Reject(key.c_str(),
                  fmt::format("the meaning of this key is not known, and it may change "
                              "the layers; {}",
                              kOwnFormat));
  }
}

}  // namespace meshwright

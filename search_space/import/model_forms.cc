#include "search_space/import/model_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "search_space/import/unread_keys.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

constexpr bool IsGelu(std::string_view activation) {
  return activation == "gelu" || activation == "gelu_new" || activation == "gelu_fast" ||
         activation == "gelu_pytorch_tanh" || activation == "gelu_python";
}

// Sets which of the linear layers of queries, keys and values, of attention's output and of the
// feed-forward have a bias.
void SetStatedBiases(ConfigReader& config, const std::array<bool, 3>& has, ModelSpec& model) {
  const auto [qkv, output, feed_forward] = has;
  if (output && !qkv) {
    config.Add("attention_out_bias", fmt::format("true without one of queries, keys and values, "
                                                 "which is not modelled; {}",
                                                 kOwnFormat));
    return;
  }
  if (qkv && feed_forward && !output) {
    config.Add("mlp_bias",
               fmt::format("true with biases of queries, keys and values only, which is "
                           "not modelled; {}",
                           kOwnFormat));
    return;
  }
  const LinearBiases of_attention = output ? LinearBiases::kAttention
                                    : qkv  ? LinearBiases::kQkv
                                           : LinearBiases::kNone;
  const LinearBiases with_ffn = qkv ? LinearBiases::kAll : LinearBiases::kFeedForward;
  SetBiases(feed_forward ? with_ffn : of_attention, model);
}

// Returns a number that a file states, or else its class's, without one that has no effect.
std::optional<double> StatedOr(std::optional<double> stated, double usual, double none) {
  const double value = stated.value_or(usual);
  return value == none || value <= 0 ? std::nullopt : std::optional(value);
}

}  // namespace

void ReadActivation(ConfigReader& config, const Family& family, ModelSpec& model,
                    std::vector<std::string>& notes) {
  const auto activation =
      config.Text({"hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act"});
  model.mlp = family.mlp;
  // gpt-oss states silu, which its class does not use.
  if (!activation.has_value() || family.mlp == MlpKind::kQuickGeglu) return;
  const bool is_silu = *activation == "silu" || *activation == "swish";
  const bool is_squared = *activation == "relu2" || *activation == "squared_relu";
  const bool is_relu = *activation == "relu" || is_squared;
  if (!IsGelu(*activation) && !is_silu && !is_relu) {
    const char* key =
        config.Find({"hidden_activation", "hidden_act", "activation_function", "mlp_hidden_act"});
    config.Reject(key, "must be silu, swish, relu, relu2 or a gelu");
    return;
  }
  if (family.mlp == MlpKind::kGelu) {
    if (is_relu) model.mlp = is_squared ? MlpKind::kSquaredRelu : MlpKind::kRelu;
    return;
  }
  if (is_relu) {
    notes.push_back(fmt::format("the activation {} is priced as a gelu, which moves the same bytes",
                                *activation));
  }
  if (family.model_types.empty() && !is_silu) {
    config.Reject("hidden_act",
                  fmt::format("whether the feed-forward has a gate is not stated; {}", kOwnFormat));
  }
  model.mlp = is_silu ? MlpKind::kSwiglu : MlpKind::kGeglu;
}

void ReadBiases(ConfigReader& config, const Family& family, ModelSpec& model) {
  // LayerNorm came with biases before classes stated them.
  const bool is_unknown = family.model_types.empty() && model.norm == NormKind::kLayernorm;
  model.biases = is_unknown ? LinearBiases::kAll : family.biases;
  std::array<bool, 3> has = {HasQkvBias(model), HasAttentionOutputBias(model),
                             HasFeedForwardBias(model)};
  auto& [qkv, output, feed_forward] = has;
  auto all = config.Flag({"bias", "use_bias", "add_bias_linear", "enable_bias"});
  const auto none = config.Flag({"no_bias"});  // Qwen: of the others than queries, keys, values
  if (none.has_value() && family.biases == LinearBiases::kNone) all = !*none;
  if (all.has_value()) {
    qkv = output = *all;
    feed_forward = *all && !family.bias_is_of_attention;
  }
  const auto of_attention = config.Flag({"attention_bias"});
  if (of_attention.has_value()) qkv = *of_attention;
  if (of_attention.has_value() && !family.attention_bias_is_qkv) output = *of_attention;
  qkv = config.Flag({"use_qkv_bias", "qkv_bias", "add_qkv_bias"}).value_or(qkv);
  output = config.Flag({"attention_out_bias"}).value_or(output);
  // The experts of gpt-oss have biases in any case.
  feed_forward = config.Flag({"mlp_bias"}).value_or(feed_forward);
  SetStatedBiases(config, has, model);
}

void ReadForms(ConfigReader& config, const Family& family, ModelSpec& model) {
  const auto usual = [&](const char* key, double value) {
    return config.config().contains(key) ? 0 : value;
  };
  model.qk_norm_spans_heads = model.qk_norm && family.qk_norm_spans_heads;
  model.pre_norms = family.pre_norms;
  model.post_norms = family.post_norms;
  const auto is_new = config.Flag({"new_decoder_architecture"});
  model.parallel_feed_forward =
      config.Flag({"use_parallel_residual", "parallel_attn"}).value_or(family.is_parallel);
  if (is_new.value_or(false)) model.parallel_feed_forward = true;
  model.attention_sinks = family.attention_sinks;
  model.glu_offset = family.glu_offset;
  model.activation_clamp =
      StatedOr(config.Number({"swiglu_limit"}), usual("swiglu_limit", family.activation_clamp), 0);
  model.attention_soft_cap =
      StatedOr(config.Number({"attn_logit_softcapping"}),
               usual("attn_logit_softcapping", family.attention_soft_cap), 0);
  model.output_soft_cap = StatedOr(config.Number({"final_logit_softcapping"}),
                                   usual("final_logit_softcapping", family.output_soft_cap), 0);
  const double head = std::max(1, model.head_dim);
  const double divisor =
      config.Number({"query_pre_attn_scalar"}).value_or(family.attention_divisor);
  const double of_divisor = divisor > 0 && divisor != head ? 1 / std::sqrt(divisor) : 0;
  model.attention_scale = StatedOr(config.Number({"attention_multiplier"}), of_divisor, 0);
  const double root = family.scales_embeddings ? std::sqrt(model.hidden_size) : 1;
  model.embedding_scale = StatedOr(config.Number({"embedding_multiplier", "scale_emb"}), root, 1);
  // MiniCPM divides the factor of its blocks by the root of their number, and its logits by the
  // hidden size over that of its base model.
  const double depth = config.Number({"scale_depth"}).value_or(0);
  const double of_depth = depth > 0 ? depth / std::sqrt(std::max(1, model.layer_count)) : 1;
  model.residual_scale = StatedOr(config.Number({"residual_multiplier"}), of_depth, 1);
  const double base = config.Number({"dim_model_base"}).value_or(0);
  const double divisor_of_logits =
      config.Number({"logits_scaling"}).value_or(base > 0 ? model.hidden_size / base : 1);
  const double of_logits = divisor_of_logits > 0 ? 1 / divisor_of_logits : 1;
  model.output_scale = StatedOr(config.Number({"logit_scale", "lm_head_multiplier"}), of_logits, 1);
}

}  // namespace meshwright

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/layer_parameters.h"
#include "search_space/spec/limits.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

// Sanity limits, far above any existing model; together with kMaxParameters they keep all counts
// below inside int64.
constexpr int kMaxLayers = 10'000;
constexpr int kMaxSize = 1'000'000;
constexpr int kMaxFfnSize = 10'000'000;
constexpr int kMaxHeads = 10'000;
constexpr int kMaxVocabulary = 100'000'000;
constexpr double kMaxParameters = 1e15;

// Returns the parameters of a layer, with all its experts or with those of one token.
double InLayer(const ModelSpec& model, const LayerKind& kind, bool active_only) {
  const LayerParameters p = ParametersOf(model, kind);
  const double share =
      active_only && p.expert > 0
          ? static_cast<double>(model.moe->experts_per_token) / model.moe->expert_count
          : 1;
  return p.tensor_split + p.replicated + p.expert * share;
}

// Counts the layers, the final norm, the embeddings (and the output layer if untied). Each
// multi-token-prediction layer adds one layer of the last kind, the projection 2h -> h and three
// norms (DeepSeek-V3, arXiv 2412.19437, section 2.2); it shares embedding and output layer.
double Parameters(const ModelSpec& model, bool active_only) {
  const double h = model.hidden_size;
  const double norm = NormParameters(model, h);
  double total = norm + h * model.position_count;
  total += h * model.vocab_size * (model.tied_embeddings ? 1 : 2);
  const std::vector<LayerRun> runs = RunsOf(model);
  for (const LayerRun& run : runs) total += run.count * InLayer(model, run.kind, active_only);
  if (model.mtp_layer_count > 0 && !runs.empty()) {
    const double layer = InLayer(model, runs.back().kind, active_only);
    total += model.mtp_layer_count * (layer + 2 * h * h + 3 * norm);
  }
  return total;
}

void CheckRouter(const MoeSpec& moe, LimitChecker& check) {
  check.Range("moe.group_count", moe.group_count, 0, kMaxSize);
  check.Range("moe.groups_per_token", moe.groups_per_token, moe.group_count > 0 ? 1 : 0,
              std::max(0, moe.group_count));
  if (moe.group_count > 0 && moe.expert_count % moe.group_count != 0) {
    check.Add("moe.group_count",
              fmt::format("{}; must divide expert_count {}", moe.group_count, moe.expert_count));
  }
  if (moe.routed_scaling_factor.has_value()) {
    check.Positive("moe.routed_scaling_factor", *moe.routed_scaling_factor);
  }
}

void CheckRopeScaling(const RopeScaling& scaling, LimitChecker& check) {
  check.AtLeast("rope_scaling.factor", scaling.factor, 1);
  check.Range("rope_scaling.original_position_count", scaling.original_position_count, 0,
              kMaxVocabulary);
  check.AtLeast("rope_scaling.beta_fast", scaling.beta_fast.value_or(0), 0);
  check.AtLeast("rope_scaling.beta_slow", scaling.beta_slow.value_or(0), 0);
  check.AtLeast("rope_scaling.mscale", scaling.mscale.value_or(0), 0);
  check.AtLeast("rope_scaling.mscale_all_dim", scaling.mscale_all_dim.value_or(0), 0);
}

void CheckMoe(const ModelSpec& model, LimitChecker& check) {
  const MoeSpec& moe = *model.moe;
  check.Range("moe.expert_count", moe.expert_count, 1, kMaxSize);
  check.Range("moe.experts_per_token", moe.experts_per_token, 1, kMaxSize);
  if (moe.expert_count >= 1 && moe.experts_per_token > moe.expert_count) {
    check.Add("moe.experts_per_token", fmt::format("{}; must be <= expert_count {}",
                                                   moe.experts_per_token, moe.expert_count));
  }
  check.Range("moe.expert_ffn_hidden_size", moe.expert_ffn_hidden_size, 1, kMaxFfnSize);
  check.Range("moe.shared_expert_ffn_hidden_size", moe.shared_expert_ffn_hidden_size, 0,
              kMaxFfnSize);
  check.Range("moe.first_dense_layer_count", moe.first_dense_layer_count, 0, kMaxLayers);
  if (model.layer_count >= 1 && moe.first_dense_layer_count > model.layer_count) {
    check.Add("moe.first_dense_layer_count",
              fmt::format("{}; must be <= layer_count {}", moe.first_dense_layer_count,
                          model.layer_count));
  }
  check.AtLeast("moe.imbalance_ratio", moe.imbalance_ratio, 1);
  CheckRouter(moe, check);
  if (!model.layers.empty() && moe.first_dense_layer_count > 0) {
    check.Add("moe.first_dense_layer_count",
              fmt::format("{}; must be 0 if layers are listed", moe.first_dense_layer_count));
  }
}

void CheckMla(const MlaSpec& mla, LimitChecker& check) {
  check.Range("mla.q_lora_rank", mla.q_lora_rank, 0, kMaxSize);
  check.Range("mla.kv_lora_rank", mla.kv_lora_rank, 1, kMaxSize);
  check.Range("mla.qk_nope_head_dim", mla.qk_nope_head_dim, 1, kMaxHeads);
  check.Range("mla.qk_rope_head_dim", mla.qk_rope_head_dim, 1, kMaxHeads);
  check.Range("mla.v_head_dim", mla.v_head_dim, 1, kMaxHeads);
  check.Range("mla.index_head_count", mla.index_head_count, 0, kMaxHeads);
  const bool is_indexed = mla.index_head_count > 0;
  check.Range("mla.index_head_dim", mla.index_head_dim, is_indexed ? 1 : 0, kMaxHeads);
  check.Range("mla.index_token_count", mla.index_token_count, is_indexed ? 1 : 0, kMaxVocabulary);
}

void CheckLinearAttention(const LinearAttentionSpec& linear, LimitChecker& check) {
  check.Range("linear_attention.key_head_count", linear.key_head_count, 1, kMaxHeads);
  check.Range("linear_attention.value_head_count", linear.value_head_count, 1, kMaxHeads);
  check.Range("linear_attention.key_head_dim", linear.key_head_dim, 1, kMaxHeads);
  check.Range("linear_attention.value_head_dim", linear.value_head_dim, 1, kMaxHeads);
  check.Range("linear_attention.convolution_size", linear.convolution_size, 0, kMaxHeads);
}

void CheckStateSpace(const StateSpaceSpec& space, LimitChecker& check) {
  check.Range("state_space.head_count", space.head_count, 1, kMaxSize);
  check.Range("state_space.head_dim", space.head_dim, 1, kMaxHeads);
  check.Range("state_space.group_count", space.group_count, 1, kMaxHeads);
  check.Range("state_space.state_size", space.state_size, 1, kMaxHeads);
  check.Range("state_space.convolution_size", space.convolution_size, 0, kMaxHeads);
  check.Range("state_space.dt_rank", space.dt_rank, 0, kMaxSize);
}

// Checks one run of `layers`, and that the model describes what its layers have.
void CheckRun(const ModelSpec& model, std::string_view at, const LayerRun& run,
              LimitChecker& check) {
  const auto field = [&](std::string_view name) { return fmt::format("{}.{}", at, name); };
  const LayerKind& kind = run.kind;
  check.Range(field("count"), run.count, 1, kMaxLayers);
  check.Range(field("sliding_window"), kind.sliding_window, 0, kMaxVocabulary);
  check.Range(field("attention_head_count"), kind.attention_head_count, 0, kMaxHeads);
  check.Range(field("kv_head_count"), kind.kv_head_count, 0, kMaxHeads);
  check.Range(field("head_dim"), kind.head_dim, 0, kMaxHeads);
  check.Range(field("v_head_dim"), kind.v_head_dim, 0, kMaxHeads);
  check.Range(field("ffn_hidden_size"), kind.ffn_hidden_size, 0, kMaxFfnSize);
  const int heads =
      kind.attention_head_count > 0 ? kind.attention_head_count : model.attention_head_count;
  const int kv_heads = kind.kv_head_count > 0 ? kind.kv_head_count : model.kv_head_count;
  if (kv_heads >= 1 && heads % kv_heads != 0) {
    check.Add(field("kv_head_count"),
              fmt::format("{}; must divide attention_head_count {}", kv_heads, heads));
  }
  const auto requires_part = [&](bool needs, bool has, std::string_view what,
                                 std::string_view part) {
    if (needs && !has) check.Add(std::string(part), fmt::format("missing; {} needs it", what));
  };
  const std::string mixer = field("mixer") + " = " + std::string(Word(kind.mixer));
  requires_part(kind.mixer == TokenMixer::kLinearAttention, model.linear_attention.has_value(),
                mixer, "linear_attention");
  requires_part(
      kind.mixer == TokenMixer::kStateSpace || kind.mixer == TokenMixer::kAttentionAndStateSpace,
      model.state_space.has_value(), mixer, "state_space");
  requires_part(kind.feed_forward == FeedForwardKind::kExperts, model.moe.has_value(),
                field("feed_forward") + " = experts", "moe");
  if (kind.mixer == TokenMixer::kNone && kind.feed_forward == FeedForwardKind::kNone) {
    check.Add(std::string(at), "has neither a mixer nor a feed-forward");
  }
}

// The runs repeat until there are layer_count layers.
void CheckLayers(const ModelSpec& model, LimitChecker& check) {
  std::int64_t total = 0;
  for (std::size_t i = 0; i < model.layers.size(); ++i) {
    CheckRun(model, fmt::format("layers[{}]", i), model.layers[i], check);
    total += model.layers[i].count;
  }
  if (!check.found_none() || total == 0) return;
  if (model.layer_count % total != 0) {
    check.Add("layers",
              fmt::format("{} layers; must divide layer_count {}", total, model.layer_count));
    return;
  }
  const LayerList list(model);
  if (list.kinds().size() > kMaxLayerKinds) {
    check.Add("layers", fmt::format("{} kinds of layers; must be <= {}", list.kinds().size(),
                                    kMaxLayerKinds));
  }
}

void CheckBiases(const ModelSpec& model, LimitChecker& check) {
  if (!model.biases.has_value() || !model.qkv_bias || HasQkvBias(model)) return;
  check.Add("biases", fmt::format("{}; must be qkv, attention or all with qkv_bias = true",
                                  Word(*model.biases)));
}

// Checks the factors and limits that a model states.
void CheckFactors(const ModelSpec& model, LimitChecker& check) {
  constexpr double kNone = 1;
  check.Positive("activation_clamp", model.activation_clamp.value_or(kNone));
  check.Positive("attention_soft_cap", model.attention_soft_cap.value_or(kNone));
  check.Positive("output_soft_cap", model.output_soft_cap.value_or(kNone));
  check.Positive("attention_scale", model.attention_scale.value_or(kNone));
  check.Positive("embedding_scale", model.embedding_scale.value_or(kNone));
  check.Positive("residual_scale", model.residual_scale.value_or(kNone));
  check.Positive("output_scale", model.output_scale.value_or(kNone));
}

// Checks what the norms, the feed-forward and attention of some models have.
void CheckForms(const ModelSpec& model, LimitChecker& check) {
  CheckBiases(model, check);
  if (!model.pre_norms && !model.post_norms) {
    check.Add("pre_norms", "false; must be true without post_norms, because a block has a norm");
  }
  if (model.qk_norm_spans_heads && !model.qk_norm) {
    check.Add("qk_norm_spans_heads", "true; must be false without qk_norm");
  }
  check.AtLeast("glu_offset", model.glu_offset, 0);
  if (model.glu_offset != 0 && !IsGated(model.mlp)) {
    check.Add("glu_offset", fmt::format("{}; must be 0 with {}, which has no gate",
                                        model.glu_offset, Word(model.mlp)));
  }
  CheckFactors(model, check);
}

void CheckAttention(const ModelSpec& model, LimitChecker& check) {
  check.Range("attention_head_count", model.attention_head_count, 1, kMaxHeads);
  check.Range("kv_head_count", model.kv_head_count, 1, kMaxHeads);
  if (model.attention_head_count >= 1 && model.kv_head_count >= 1 &&
      model.attention_head_count % model.kv_head_count != 0) {
    check.Add("kv_head_count", fmt::format("{}; must divide attention_head_count {}",
                                           model.kv_head_count, model.attention_head_count));
  }
  check.Range("head_dim", model.head_dim, 1, kMaxHeads);
}

}  // namespace

LinearBiases BiasesOf(const ModelSpec& model) {
  if (model.biases.has_value()) return *model.biases;
  if (model.norm == NormKind::kLayernorm) return LinearBiases::kAll;
  return model.qkv_bias ? LinearBiases::kQkv : LinearBiases::kNone;
}

bool HasQkvBias(const ModelSpec& model) {
  const LinearBiases biases = BiasesOf(model);
  return biases != LinearBiases::kNone && biases != LinearBiases::kFeedForward;
}

bool HasAttentionOutputBias(const ModelSpec& model) {
  const LinearBiases biases = BiasesOf(model);
  return biases == LinearBiases::kAttention || biases == LinearBiases::kAll;
}

bool HasFeedForwardBias(const ModelSpec& model) {
  const LinearBiases biases = BiasesOf(model);
  return biases == LinearBiases::kFeedForward || biases == LinearBiases::kAll;
}

void SetBiases(LinearBiases biases, ModelSpec& model) {
  const bool is_layernorm = model.norm == NormKind::kLayernorm;
  model.qkv_bias = biases == LinearBiases::kQkv && !is_layernorm;
  model.biases.reset();
  if (BiasesOf(model) != biases) model.biases = biases;
}

std::vector<FieldViolation> Validate(const ModelSpec& model, std::string_view prefix) {
  LimitChecker check(prefix);
  check.Range("layer_count", model.layer_count, 1, kMaxLayers);
  check.Range("hidden_size", model.hidden_size, 1, kMaxSize);
  check.Range("ffn_hidden_size", model.ffn_hidden_size, NeedsFfnSize(model) ? 1 : 0, kMaxFfnSize);
  CheckAttention(model, check);
  check.Range("vocab_size", model.vocab_size, 1, kMaxVocabulary);
  if (model.moe.has_value()) CheckMoe(model, check);
  if (model.mla.has_value()) CheckMla(*model.mla, check);
  check.Range("sliding_window", model.sliding_window, 0, kMaxVocabulary);
  check.Range("mtp_layer_count", model.mtp_layer_count, 0, kMaxLayers);
  check.Range("position_count", model.position_count, 0, kMaxVocabulary);
  if (model.rotary_base.has_value()) check.Positive("rotary_base", *model.rotary_base);
  if (model.norm_epsilon.has_value()) check.Positive("norm_epsilon", *model.norm_epsilon);
  if (model.rope_scaling.has_value()) CheckRopeScaling(*model.rope_scaling, check);
  CheckForms(model, check);
  if (model.linear_attention.has_value()) CheckLinearAttention(*model.linear_attention, check);
  if (model.state_space.has_value()) CheckStateSpace(*model.state_space, check);
  if (!model.layers.empty()) CheckLayers(model, check);
  if (check.found_none() && Parameters(model, false) > kMaxParameters) {
    check.Add("", fmt::format("{:.3g} parameters; must be <= {:.3g}", Parameters(model, false),
                              kMaxParameters));
  }
  return std::move(check).violations();
}

std::int64_t ParameterCount(const ModelSpec& model, bool active_only) {
  return std::llround(Parameters(model, active_only));
}

}  // namespace meshwright

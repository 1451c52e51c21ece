#include "search_space/spec/model.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "search_space/spec/limits.h"

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

// Parameters of the parts of a layer are doubles: whole numbers up to 2^53 are exact, and a model
// of absurd size does not overflow before Validate rejects it. Symbols of docs/cost_model.md: h
// hidden, q = heads x head_dim, u = KV heads x head_dim, f feed-forward width, E experts.

// Multi-head latent attention, formula 1 of the cost model, plus the norms of both latents:
// h r_q + r_q a(g+g_r) + h(r_kv+g_r) + r_kv a(g+g_v) + a g_v h + r_q + r_kv;
// without a query latent the first two terms are h a(g+g_r).
double MlaParameters(const ModelSpec& model) {
  const MlaSpec& mla = *model.mla;
  const double h = model.hidden_size;
  const double a = model.attention_head_count;
  const double r_q = mla.q_lora_rank;
  const double r_kv = mla.kv_lora_rank;
  const double g = mla.qk_nope_head_dim;
  const double g_r = mla.qk_rope_head_dim;
  const double g_v = mla.v_head_dim;
  const double query = mla.q_lora_rank > 0 ? h * r_q + r_q * a * (g + g_r) : h * a * (g + g_r);
  return query + h * (r_kv + g_r) + r_kv * a * (g + g_v) + a * g_v * h + r_q + r_kv;
}

// The GPT family (layernorm) has a bias on every linear layer; the others have none, or only on
// Q, K and V (Qwen2: under 0.01% of the model, not counted).
bool HasBiases(const ModelSpec& model) { return model.norm == NormKind::kLayernorm; }

double AttentionParameters(const ModelSpec& model) {
  if (model.mla.has_value()) return MlaParameters(model);
  const double h = model.hidden_size;
  const double q = double{1} * model.attention_head_count * model.head_dim;
  const double u = double{1} * model.kv_head_count * model.head_dim;
  const double bias = HasBiases(model) ? q + 2 * u + h : 0;
  return 2 * h * q + 2 * h * u + bias;
}

// Returns 3 h f if gated, otherwise 2 h f.
double MlpParameters(const ModelSpec& model, int ffn_hidden_size) {
  const double h = model.hidden_size;
  const double f = ffn_hidden_size;
  const double in_width = model.mlp == MlpKind::kGelu ? f : 2 * f;
  const double bias = HasBiases(model) ? in_width + h : 0;
  return h * in_width + f * h + bias;
}

double NormParameters(const ModelSpec& model) {
  return model.norm == NormKind::kLayernorm ? 2.0 * model.hidden_size : 1.0 * model.hidden_size;
}

// Counts attention, two norms and the feed-forward. A routed layer has the router (h E), the
// experts (all, or those of one token) and the shared experts.
double LayerParameters(const ModelSpec& model, bool is_moe, bool active_only) {
  const double base = AttentionParameters(model) + 2 * NormParameters(model);
  if (!is_moe) return base + MlpParameters(model, model.ffn_hidden_size);
  const MoeSpec& moe = *model.moe;
  const double experts = active_only ? moe.experts_per_token : moe.expert_count;
  const double shared = moe.shared_expert_ffn_hidden_size > 0
                            ? MlpParameters(model, moe.shared_expert_ffn_hidden_size)
                            : 0;
  return base + double{1} * model.hidden_size * moe.expert_count +
         experts * MlpParameters(model, moe.expert_ffn_hidden_size) + shared;
}

// Counts the layers, the final norm and the embedding (and the output layer if untied). Each
// multi-token-prediction layer adds one layer of the last kind, the projection 2h -> h and three
// norms (DeepSeek-V3, arXiv 2412.19437, section 2.2); it shares embedding and output layer.
// Position embeddings are not counted, because a ModelSpec does not describe them.
double Parameters(const ModelSpec& model, bool active_only) {
  const double h = model.hidden_size;
  const int moe_layers =
      model.moe.has_value() ? model.layer_count - model.moe->first_dense_layer_count : 0;
  double total = NormParameters(model);
  total += h * model.vocab_size * (model.tied_embeddings ? 1 : 2);
  total += (model.layer_count - moe_layers) * LayerParameters(model, false, active_only);
  if (moe_layers > 0) total += moe_layers * LayerParameters(model, true, active_only);
  if (model.mtp_layer_count > 0) {
    const double layer = LayerParameters(model, moe_layers > 0, active_only);
    total += model.mtp_layer_count * (layer + 2 * h * h + 3 * NormParameters(model));
  }
  return total;
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
}

void CheckMla(const MlaSpec& mla, LimitChecker& check) {
  check.Range("mla.q_lora_rank", mla.q_lora_rank, 0, kMaxSize);
  check.Range("mla.kv_lora_rank", mla.kv_lora_rank, 1, kMaxSize);
  check.Range("mla.qk_nope_head_dim", mla.qk_nope_head_dim, 1, kMaxHeads);
  check.Range("mla.qk_rope_head_dim", mla.qk_rope_head_dim, 1, kMaxHeads);
  check.Range("mla.v_head_dim", mla.v_head_dim, 1, kMaxHeads);
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

std::vector<FieldViolation> Validate(const ModelSpec& model, std::string_view prefix) {
  LimitChecker check(prefix);
  check.Range("layer_count", model.layer_count, 1, kMaxLayers);
  check.Range("hidden_size", model.hidden_size, 1, kMaxSize);
  const bool has_dense_layer = !model.moe.has_value() || model.moe->first_dense_layer_count > 0;
  check.Range("ffn_hidden_size", model.ffn_hidden_size, has_dense_layer ? 1 : 0, kMaxFfnSize);
  CheckAttention(model, check);
  check.Range("vocab_size", model.vocab_size, 1, kMaxVocabulary);
  if (model.moe.has_value()) CheckMoe(model, check);
  if (model.mla.has_value()) CheckMla(*model.mla, check);
  check.Range("sliding_window", model.sliding_window, 0, kMaxVocabulary);
  check.Range("mtp_layer_count", model.mtp_layer_count, 0, kMaxLayers);
  if (check.found_none() && Parameters(model, false) > kMaxParameters) {
    check.Add("", fmt::format("{:.3g} parameters; must be <= {:.3g}", Parameters(model, false),
                              kMaxParameters));
  }
  return std::move(check).violations();
}

bool IsMoeLayer(const ModelSpec& model, int index) {
  return model.moe.has_value() && index >= model.moe->first_dense_layer_count;
}

std::int64_t ParameterCount(const ModelSpec& model, bool active_only) {
  return std::llround(Parameters(model, active_only));
}

}  // namespace meshwright

#include "search_space/spec/layer_parameters.h"

#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Symbols of docs/cost_model.md: h hidden, q = heads x head_dim, u = KV heads x head_dim, f
// feed-forward width, E experts.

double MlpMatrices(const ModelSpec& m, double f) {
  return (IsGated(m.mlp) ? 3.0 : 2.0) * m.hidden_size * f;
}

// Returns the biases of the matrices of a feed-forward that tensor parallelism splits by columns.
double MlpBiases(const ModelSpec& m, double f) { return (IsGated(m.mlp) ? 2.0 : 1.0) * f; }

// Formula 1 of the cost model, plus the norms of both latents: h r_q + r_q a(g+g_r) + h(r_kv+g_r) +
// r_kv a(g+g_v) + a g_v h + r_q + r_kv; without a query latent the first two terms are h a(g+g_r).
// The indexer reads the query latent and the layer's input; its key norm has a bias
// (DeepSeek-V3.2-Exp, inference/model.py, class Indexer).
void AddLatentAttention(const ModelSpec& m, LayerParameters& p) {
  const MlaSpec& mla = *m.mla;
  const double h = m.hidden_size;
  const double a = m.attention_head_count;
  const double qk = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  const double r = mla.kv_lora_rank;
  p.tensor_split += a * (mla.qk_nope_head_dim + mla.v_head_dim) * r + a * mla.v_head_dim * h;
  p.replicated += h * (r + mla.qk_rope_head_dim) + r;
  const double queries = mla.q_lora_rank > 0 ? mla.q_lora_rank : h;
  p.tensor_split += queries * a * qk;
  if (mla.q_lora_rank > 0) p.replicated += h * mla.q_lora_rank + mla.q_lora_rank;
  if (mla.index_head_count > 0) {
    const double width = mla.index_head_dim;
    p.replicated +=
        queries * mla.index_head_count * width + h * width + 2 * width + h * mla.index_head_count;
  }
}

void AddGroupedQuery(const ModelSpec& m, const LayerKind& kind, LayerParameters& p) {
  const double h = m.hidden_size;
  const double q = static_cast<double>(kind.attention_head_count) * kind.head_dim;
  const double u = static_cast<double>(kind.kv_head_count) * kind.head_dim;
  const double values =
      kind.values_are_keys ? 0 : static_cast<double>(kind.kv_head_count) * kind.v_head_dim;
  const double output = static_cast<double>(kind.attention_head_count) * kind.v_head_dim;
  p.tensor_split += h * (q + u + values) + output * h;
  if (m.attention_output_gate) p.tensor_split += h * q;
  if (HasQkvBias(m)) p.tensor_split += q + u + values;
  if (HasAttentionOutputBias(m)) p.replicated += h;
  if (m.qk_norm && m.qk_norm_spans_heads) {
    p.tensor_split += q + u;
  } else if (m.qk_norm) {
    p.replicated += 2.0 * kind.head_dim;
  }
  if (m.attention_sinks) p.tensor_split += kind.attention_head_count;
}

// q, k, v, the output, their convolution, and by kind the decays, write strengths and output gate:
// MiniMax-01 (arXiv 2501.08313), Gated DeltaNet (arXiv 2412.06464) as in Qwen3-Next, Kimi Linear
// (arXiv 2510.26692).
void AddLinearAttention(const ModelSpec& m, LayerParameters& p) {
  const LinearAttentionSpec& l = *m.linear_attention;
  const double h = m.hidden_size;
  const double keys = static_cast<double>(l.key_head_count) * l.key_head_dim;
  const double values = static_cast<double>(l.value_head_count) * l.value_head_dim;
  const double heads = l.value_head_count;
  p.tensor_split += h * (2 * keys + values) + values * h;
  p.tensor_split += (2 * keys + values) * l.convolution_size;
  switch (l.kind) {
    case LinearAttentionKind::kLightning:
      p.tensor_split += h * values + values;
      return;
    case LinearAttentionKind::kGatedDelta:
      p.tensor_split += h * values + 2 * h * heads + 2 * heads;
      p.replicated += l.value_head_dim;
      return;
    case LinearAttentionKind::kKimiDelta:
      p.tensor_split +=
          l.key_head_dim * keys + l.value_head_dim * values + h * heads + heads + keys;
      p.replicated += h * (l.key_head_dim + l.value_head_dim) + l.value_head_dim;
      return;
  }
}

void AddStateSpace(const ModelSpec& m, LayerParameters& p) {
  const StateSpaceSpec& s = *m.state_space;
  const double h = m.hidden_size;
  const double inner = static_cast<double>(s.head_count) * s.head_dim;
  const double state = s.state_size;
  if (s.dt_rank > 0) {
    const double r = s.dt_rank;
    p.tensor_split += h * 2 * inner + inner * (s.convolution_size + 1) + inner * (r + 2 * state) +
                      r * inner + inner + inner * state + inner + inner * h;
    p.replicated += r + 2 * state;
    return;
  }
  const double shared = 2.0 * s.group_count * state;  // B and C
  p.tensor_split += h * (2 * inner + shared + s.head_count) +
                    (inner + shared) * (s.convolution_size + 1) + 3.0 * s.head_count + inner +
                    inner * h;
}

void AddMixer(const ModelSpec& m, const LayerKind& kind, LayerParameters& p) {
  const auto attention = [&] {
    if (m.mla.has_value()) {
      AddLatentAttention(m, p);
    } else {
      AddGroupedQuery(m, kind, p);
    }
  };
  switch (kind.mixer) {
    case TokenMixer::kAttention:
      return attention();
    case TokenMixer::kLinearAttention:
      return AddLinearAttention(m, p);
    case TokenMixer::kStateSpace:
      return AddStateSpace(m, p);
    case TokenMixer::kAttentionAndStateSpace:
      attention();
      return AddStateSpace(m, p);
    case TokenMixer::kNone:
      return;
  }
}

// Adds a bias of each matrix of the experts, and one of the router for each of them (gpt-oss).
void AddExpertBiases(const ModelSpec& m, LayerParameters& p) {
  const double h = m.hidden_size;
  const MoeSpec& moe = *m.moe;
  p.expert += moe.expert_count * (MlpBiases(m, moe.expert_ffn_hidden_size) + h);
  p.replicated += moe.expert_count;
  if (moe.shared_expert_ffn_hidden_size == 0) return;
  p.tensor_split += MlpBiases(m, moe.shared_expert_ffn_hidden_size);
  p.replicated += h;
}

void AddFeedForward(const ModelSpec& m, const LayerKind& kind, LayerParameters& p) {
  const double h = m.hidden_size;
  switch (kind.feed_forward) {
    case FeedForwardKind::kDense:
      p.tensor_split += MlpMatrices(m, kind.ffn_hidden_size);
      if (HasFeedForwardBias(m)) {
        p.tensor_split += MlpBiases(m, kind.ffn_hidden_size);
        p.replicated += h;
      }
      return;
    case FeedForwardKind::kExperts:
      p.expert = m.moe->expert_count * MlpMatrices(m, m.moe->expert_ffn_hidden_size);
      p.tensor_split += MlpMatrices(m, m.moe->shared_expert_ffn_hidden_size);
      p.replicated += h * m.moe->expert_count;
      if (HasFeedForwardBias(m)) AddExpertBiases(m, p);
      return;
    case FeedForwardKind::kNone:
      return;
  }
}

}  // namespace

double NormParameters(const ModelSpec& m, double width) {
  return (m.norm == NormKind::kLayernorm ? 2 : 1) * width;
}

LayerParameters ParametersOf(const ModelSpec& m, const LayerKind& kind) {
  LayerParameters p;
  const int blocks = (kind.mixer != TokenMixer::kNone ? 1 : 0) +
                     (kind.feed_forward != FeedForwardKind::kNone ? 1 : 0);
  const int norms = (m.pre_norms ? 1 : 0) + (m.post_norms ? 1 : 0);
  p.replicated = blocks * norms * NormParameters(m, m.hidden_size);
  AddMixer(m, kind, p);
  AddFeedForward(m, kind, p);
  return p;
}

}  // namespace meshwright

#include "estimator/layer/parameters.h"

#include <algorithm>

#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

double AttentionMatrices(const ModelSpec& m) {
  const double h = m.hidden_size;
  const double q = static_cast<double>(m.attention_head_count) * m.head_dim;
  const double u = static_cast<double>(m.kv_head_count) * m.head_dim;
  return h * (q + 2 * u) + q * h;
}

double MlpMatrices(const ModelSpec& m, double f) {
  return (m.mlp == MlpKind::kGelu ? 2.0 : 3.0) * m.hidden_size * f;
}

}  // namespace

LayerParameters ParametersOf(const ModelSpec& m, bool is_moe) {
  const double h = m.hidden_size;
  LayerParameters p;
  const bool has_bias = m.norm == NormKind::kLayernorm;
  p.replicated = (has_bias ? 4 : 2) * h;
  if (m.mla.has_value()) {
    const MlaSpec& mla = *m.mla;
    const double a = m.attention_head_count;
    const double qk = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
    const double r = mla.kv_lora_rank;
    p.tensor_split = a * (mla.qk_nope_head_dim + mla.v_head_dim) * r + a * mla.v_head_dim * h;
    p.replicated += h * (r + mla.qk_rope_head_dim) + r;
    if (mla.q_lora_rank > 0) {
      p.tensor_split += mla.q_lora_rank * a * qk;
      p.replicated += h * mla.q_lora_rank + mla.q_lora_rank;
    } else {
      p.tensor_split += h * a * qk;
    }
  } else {
    p.tensor_split = AttentionMatrices(m);
    if (has_bias) {
      const double q = static_cast<double>(m.attention_head_count) * m.head_dim;
      const double u = static_cast<double>(m.kv_head_count) * m.head_dim;
      p.tensor_split += q + 2 * u;
      p.replicated += h;
    }
  }
  if (is_moe && m.moe.has_value()) {
    const MoeSpec& moe = *m.moe;
    p.expert = moe.expert_count * MlpMatrices(m, moe.expert_ffn_hidden_size);
    p.tensor_split += MlpMatrices(m, moe.shared_expert_ffn_hidden_size);
    p.replicated += h * moe.expert_count;
  } else {
    p.tensor_split += MlpMatrices(m, m.ffn_hidden_size);
    if (has_bias) {
      p.tensor_split += m.ffn_hidden_size;
      p.replicated += h;
    }
  }
  return p;
}

double DenseParameters(const LayerParameters& p, int tensor_parallel) {
  return p.tensor_split / tensor_parallel + p.replicated;
}

double ExpertParameters(const LayerParameters& p, int expert_parallel, int expert_tensor_parallel) {
  return p.expert / expert_parallel / expert_tensor_parallel;
}

double DistinctMatrixElements(const ModelSpec& m, bool is_moe, int tensor_parallel) {
  const LayerParameters p = ParametersOf(m, is_moe);
  double elements = p.tensor_split;
  if (is_moe && m.moe.has_value() && m.moe->expert_count > 0) {
    elements += p.expert / m.moe->expert_count;  // experts share one shape
  }
  return elements / tensor_parallel;
}

}  // namespace meshwright

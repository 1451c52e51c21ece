#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The routed feed-forward layers. Sizes are those of one expert.
struct MoeSpec {
  int expert_count = 0;
  int experts_per_token = 0;
  int expert_ffn_hidden_size = 0;
  int shared_expert_ffn_hidden_size = 0;  // all shared experts together; 0: none
  int first_dense_layer_count = 0;        // leading layers that keep the dense feed-forward
  double imbalance_ratio = 1.0;           // tokens of the busiest expert rank / mean; >= 1
  bool operator==(const MoeSpec&) const = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
struct MlaSpec {
  int q_lora_rank = 0;  // 0: queries are projected directly
  int kv_lora_rank = 0;
  int qk_nope_head_dim = 0;
  int qk_rope_head_dim = 0;
  int v_head_dim = 0;
  bool operator==(const MlaSpec&) const = default;
};

// A decoder-only transformer. The fields have the names and meanings of Model in
// proto/meshwright/v1/problem.proto.
struct ModelSpec {
  std::string name = {};
  int layer_count = 0;
  int hidden_size = 0;
  int ffn_hidden_size = 0;
  int attention_head_count = 0;
  int kv_head_count = 0;
  int head_dim = 0;
  int vocab_size = 0;
  MlpKind mlp = MlpKind::kSwiglu;
  NormKind norm = NormKind::kRmsnorm;
  bool tied_embeddings = false;
  std::optional<MoeSpec> moe = {};
  std::optional<MlaSpec> mla = {};
  int sliding_window = 0;   // tokens; 0: full causal attention
  int mtp_layer_count = 0;  // multi-token-prediction layers behind the last layer (DeepSeek-V3)
  bool operator==(const ModelSpec&) const = default;
};

// Returns every field that is outside its limits; `prefix` is the path of the model in the input
// ("model").
std::vector<FieldViolation> Validate(const ModelSpec& model, std::string_view prefix);

// Returns true if layer `index` (from 0, without MTP layers) has routed experts.
bool IsMoeLayer(const ModelSpec& model, int index);

// Returns the number of parameters of the whole model, with all experts, or with `active_only` only
// those that one token uses. Tied embedding and output layers count once.
std::int64_t ParameterCount(const ModelSpec& model, bool active_only);

}  // namespace meshwright

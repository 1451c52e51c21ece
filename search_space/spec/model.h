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
  // Leading layers that keep the dense feed-forward; 0 if ModelSpec::layers says which do.
  int first_dense_layer_count = 0;
  double imbalance_ratio = 1.0;  // tokens of the busiest expert rank / mean; >= 1
  // The router chooses for each token so many of the equal groups of experts, and experts in them
  // (node-limited routing, DeepSeek-V3, arXiv 2412.19437, 2.1.2); 0: it chooses among all experts.
  int group_count = 0;
  int groups_per_token = 0;
  // How the router chooses, which only launch flags repeat. Absent: not stated.
  std::optional<RouterScore> router_score = {};
  std::optional<double> routed_scaling_factor = {};  // of the weights of the chosen experts
  bool router_bias = false;  // a bias of each expert balances the choice (DeepSeek-V3)
  bool operator==(const MoeSpec&) const = default;
};

// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1).
struct MlaSpec {
  int q_lora_rank = 0;  // 0: queries are projected directly
  int kv_lora_rank = 0;
  int qk_nope_head_dim = 0;
  int qk_rope_head_dim = 0;
  int v_head_dim = 0;
  // The indexer of DeepSeek sparse attention (DeepSeek-V3.2-Exp, "lightning indexer"), which picks
  // the tokens that a query attends to; 0: each query attends to all tokens before it.
  int index_head_count = 0;
  int index_head_dim = 0;
  int index_token_count = 0;
  bool operator==(const MlaSpec&) const = default;
};

// The stretching of rotary positions, which launch flags repeat. What is absent is not stated.
struct RopeScaling {
  RopeScalingKind kind = RopeScalingKind::kYarn;
  double factor = 1;
  int original_position_count = 0;  // positions before stretching; 0: not stated
  std::optional<double> beta_fast = {};
  std::optional<double> beta_slow = {};
  std::optional<double> mscale = {};
  std::optional<double> mscale_all_dim = {};
  bool operator==(const RopeScaling&) const = default;
};

// Linear attention: the layers whose mixer is linear_attention.
struct LinearAttentionSpec {
  LinearAttentionKind kind = LinearAttentionKind::kGatedDelta;
  int key_head_count = 0;
  int value_head_count = 0;
  int key_head_dim = 0;
  int value_head_dim = 0;
  int convolution_size = 0;  // tokens of the short convolution of queries, keys, values; 0: none
  bool operator==(const LinearAttentionSpec&) const = default;
};

// State-space layers: Mamba-2 (arXiv 2405.21060), or Mamba-1 (arXiv 2312.00752) if `dt_rank` > 0,
// whose heads have one channel each. The inner width is head_count x head_dim.
struct StateSpaceSpec {
  int head_count = 0;
  int head_dim = 0;
  int group_count = 0;       // groups of heads that share the input and output matrices B and C
  int state_size = 0;        // of each channel
  int convolution_size = 0;  // tokens of the short convolution
  int dt_rank = 0;           // Mamba-1: rank of the projection that makes the step sizes
  bool operator==(const StateSpaceSpec&) const = default;
};

// One kind of layer. A size of 0 is the model's own.
struct LayerKind {
  TokenMixer mixer = TokenMixer::kAttention;
  FeedForwardKind feed_forward = FeedForwardKind::kDense;
  int sliding_window = 0;   // tokens that a token attends to; 0: the model's
  bool is_chunked = false;  // the window is one of fixed blocks of the sequence (Llama 4)
  int attention_head_count = 0;
  int kv_head_count = 0;
  int head_dim = 0;
  int v_head_dim = 0;            // size of a value; 0: head_dim
  bool values_are_keys = false;  // one projection makes both (Gemma 4)
  int ffn_hidden_size = 0;
  bool operator==(const LayerKind&) const = default;
};

// Neighbouring layers of one kind.
struct LayerRun {
  int count = 0;
  LayerKind kind = {};
  bool operator==(const LayerRun&) const = default;
};

// A decoder-only language model. The fields have the names and meanings of Model in
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
  std::optional<LinearAttentionSpec> linear_attention = {};
  std::optional<StateSpaceSpec> state_space = {};
  // The layers from the first on, repeated until there are layer_count. Empty: attention in every
  // layer, and experts in all but the first ones if there are experts.
  std::vector<LayerRun> layers = {};
  bool qkv_bias = false;               // a bias on Q, K and V only (Qwen2)
  bool qk_norm = false;                // norms of queries and keys (Qwen3)
  bool attention_output_gate = false;  // a gate on the output, as wide as the queries (Qwen3-Next)
  bool post_norms = false;             // norms after attention and feed-forward too (Gemma 2)
  int position_count = 0;              // learned position embeddings; 0: none
  std::optional<double> rotary_base = {};  // absent: not stated
  std::optional<double> norm_epsilon = {};
  std::optional<RopeScaling> rope_scaling = {};  // absent: none, or not stated
  // The linear layers with a bias. Absent: all with layernorm; with rmsnorm those of qkv_bias.
  std::optional<LinearBiases> biases = {};
  bool pre_norms = true;             // norms before attention and feed-forward (OLMo 2 has none)
  bool qk_norm_spans_heads = false;  // one norm for all queries and one for all keys (OLMo 2)
  // A learnt score of each head that takes a share of its softmax (gpt-oss).
  bool attention_sinks = false;
  bool parallel_feed_forward = false;  // reads the input of attention, not its output (GPT-J)
  double glu_offset = 0;               // added to what the gate multiplies (gpt-oss: 1)
  // The limit of the gate from above, and of what it multiplies on both sides (gpt-oss: 7).
  std::optional<double> activation_clamp = {};
  // c of c tanh(x / c), by which scores of attention and logits are bounded (Gemma 2).
  std::optional<double> attention_soft_cap = {};
  std::optional<double> output_soft_cap = {};
  // Factors that change neither time nor memory; absent: 1, and of scores head_dim^-0.5.
  std::optional<double> attention_scale = {};
  std::optional<double> embedding_scale = {};
  std::optional<double> residual_scale = {};  // of what a block adds to the residual stream
  std::optional<double> output_scale = {};    // of the logits
  bool operator==(const ModelSpec&) const = default;
};

// Returns the linear layers of the model that have a bias.
LinearBiases BiasesOf(const ModelSpec& model);
bool HasQkvBias(const ModelSpec& model);
bool HasAttentionOutputBias(const ModelSpec& model);
bool HasFeedForwardBias(const ModelSpec& model);

// States which linear layers have a bias, in the one of several ways that all models state it:
// nothing if the norm says so, and qkv_bias for kQkv with rmsnorm.
void SetBiases(LinearBiases biases, ModelSpec& model);

// Returns every field that is outside its limits; `prefix` is the path of the model in the input
// ("model").
std::vector<FieldViolation> Validate(const ModelSpec& model, std::string_view prefix);

// Returns the number of parameters of the whole model, with all experts, or with `active_only` only
// those that one token uses. Tied embedding and output layers count once.
std::int64_t ParameterCount(const ModelSpec& model, bool active_only);

}  // namespace meshwright

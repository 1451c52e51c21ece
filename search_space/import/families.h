#pragma once

#include <optional>
#include <string_view>

#include "search_space/spec/choices.h"

namespace meshwright {

// The facts of a family's class in transformers that its files do not state, and the values that
// the class takes for keys that a file omits.
struct Family {
  std::string_view model_types;  // words of model_type
  NormKind norm = NormKind::kRmsnorm;
  MlpKind mlp = MlpKind::kSwiglu;
  bool tied_embeddings = false;
  bool has_experts = false;                   // the class can build experts
  LinearBiases biases = LinearBiases::kNone;  // unless the file states it
  // A stated bias of attention is one of queries, keys and values, not one of its output.
  bool attention_bias_is_qkv = false;
  bool bias_is_of_attention = false;  // a stated `bias` is not one of the feed-forward
  bool qk_norm = false;
  bool qk_norm_spans_heads = false;
  bool output_gate = false;
  bool post_norms = false;
  bool pre_norms = true;
  bool is_parallel = false;  // attention and feed-forward read the same input
  bool attention_sinks = false;
  double glu_offset = 0;
  double activation_clamp = 0;     // 0: none
  double attention_soft_cap = 0;   // 0: none
  double output_soft_cap = 0;      // 0: none
  double attention_divisor = 0;    // its root divides scores; 0: the head size
  bool scales_embeddings = false;  // by the root of the hidden size
  bool mixes_both = false;         // attention and a state space side by side in every layer
  int kv_head_count = 0;           // 0: as many as heads
  int head_dim = 0;                // 0: hidden size / heads
  int attention_head_count = 0;    // 0: must be stated
  int vocab_size = 0;              // 0: must be stated
  int sliding_window = 0;
  bool needs_window_switch = false;  // the window is used only with use_sliding_window
  int window_pattern = 0;            // one layer in as many has no window
  int first_dense_layer_count = 0;
  int shared_expert_count = 0;
  int q_lora_rank = 0;
  bool v_head_dim_is_derived = false;  // hidden size / heads, unless the file states it
  bool counts_gate_in_ffn = false;     // intermediate_size is that of gate and value together
  bool expert_is_shared = false;       // one more expert of the same size is shared
  int position_count = 0;  // learned position embeddings, unless the file states another number
};

// Returns the facts of a model type; the last row, of unknown types, if there are none.
const Family& FamilyOf(std::string_view model_type);
bool IsKnownFamily(std::string_view model_type);

// Returns the word of the table that is `plain` but for underscores, or "".
std::string_view FamilyWord(std::string_view plain);

}  // namespace meshwright

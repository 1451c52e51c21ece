#pragma once

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"

namespace meshwright {

// Public models with the sizes that their papers and hub files state.

inline ModelSpec Llama2_7b() {
  return {.name = "llama2-7b",
          .layer_count = 32,
          .hidden_size = 4096,
          .ffn_hidden_size = 11008,
          .attention_head_count = 32,
          .kv_head_count = 32,
          .head_dim = 128,
          .vocab_size = 32000};
}

inline ModelSpec Llama2_70b() {
  return {.name = "llama2-70b",
          .layer_count = 80,
          .hidden_size = 8192,
          .ffn_hidden_size = 28672,
          .attention_head_count = 64,
          .kv_head_count = 8,
          .head_dim = 128,
          .vocab_size = 32000};
}

inline ModelSpec Llama31_405b() {
  return {.name = "llama-3.1-405b",
          .layer_count = 126,
          .hidden_size = 16384,
          .ffn_hidden_size = 53248,
          .attention_head_count = 128,
          .kv_head_count = 8,
          .head_dim = 128,
          .vocab_size = 128256};
}

inline ModelSpec Gpt3_175b() {
  return {.name = "gpt3-175b",
          .layer_count = 96,
          .hidden_size = 12288,
          .ffn_hidden_size = 49152,
          .attention_head_count = 96,
          .kv_head_count = 96,
          .head_dim = 128,
          .vocab_size = 51200,
          .mlp = MlpKind::kGelu,
          .norm = NormKind::kLayernorm,
          .tied_embeddings = true};
}

inline ModelSpec Mixtral_8x7b() {
  return {
      .name = "mixtral-8x7b",
      .layer_count = 32,
      .hidden_size = 4096,
      .attention_head_count = 32,
      .kv_head_count = 8,
      .head_dim = 128,
      .vocab_size = 32000,
      .moe = MoeSpec{.expert_count = 8, .experts_per_token = 2, .expert_ffn_hidden_size = 14336}};
}

inline ModelSpec DeepseekV3() {
  return {.name = "deepseek-v3",
          .layer_count = 61,
          .hidden_size = 7168,
          .ffn_hidden_size = 18432,
          .attention_head_count = 128,
          .kv_head_count = 128,
          .head_dim = 128,
          .vocab_size = 129280,
          .moe = MoeSpec{.expert_count = 256,
                         .experts_per_token = 8,
                         .expert_ffn_hidden_size = 2048,
                         .shared_expert_ffn_hidden_size = 2048,
                         .first_dense_layer_count = 3},
          .mla = MlaSpec{.q_lora_rank = 1536,
                         .kv_lora_rank = 512,
                         .qk_nope_head_dim = 128,
                         .qk_rope_head_dim = 64,
                         .v_head_dim = 128}};
}

}  // namespace meshwright

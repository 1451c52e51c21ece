#include "search_space/import/families.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

namespace meshwright {
namespace {

// Returns true if a list of words has the word.
bool HasWord(std::string_view words, std::string_view word) {
  while (!word.empty() && !words.empty()) {
    const std::size_t end = std::min(words.find(' '), words.size());
    if (words.substr(0, end) == word) return true;
    words.remove_prefix(std::min(end + 1, words.size()));
  }
  return false;
}

// From the configuration and modeling files of each class in transformers, and from the files
// beside the weights for classes that are not in it. GPT-like classes have LayerNorm and a
// feed-forward without gate.
constexpr Family kFamilies[] = {
    {.model_types = "llama aquila aquila2 aquila3 baichuan granite internlm3 yi olmo"},
    {.model_types = "smollm3", .tied_embeddings = true},
    {.model_types = "arcee", .mlp = MlpKind::kGelu},
    {.model_types = "persimmon",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .biases = LinearBiases::kAll,
     .qk_norm = true},
    {.model_types = "mistral",
     .kv_head_count = 8,
     .attention_head_count = 32,
     .sliding_window = 4096},
    {.model_types = "mixtral", .has_experts = true, .kv_head_count = 8},
    {.model_types = "ministral mistral3 ministral3", .kv_head_count = 8},
    {.model_types =
         "qwen2 qwen2_vl qwen2_vl_text qwen2_5_vl qwen2_5_vl_text qwen2_5_omni_text mimo",
     .biases = LinearBiases::kQkv,
     .attention_bias_is_qkv = true,
     .kv_head_count = 32,
     .sliding_window = 4096,
     .needs_window_switch = true},
    {.model_types = "qwen2_moe",
     .has_experts = true,
     .biases = LinearBiases::kQkv,
     .attention_bias_is_qkv = true,
     .kv_head_count = 16,
     .sliding_window = 4096,
     .needs_window_switch = true},
    {.model_types = "qwen", .biases = LinearBiases::kQkv, .counts_gate_in_ffn = true},
    {.model_types = "qwen3 qwen3_vl qwen3_vl_text qwen3_omni_text",
     .qk_norm = true,
     .kv_head_count = 32,
     .head_dim = 128,
     .sliding_window = 4096,
     .needs_window_switch = true},
    {.model_types = "qwen3_moe qwen3_vl_moe qwen3_vl_moe_text qwen3_omni_moe_text",
     .has_experts = true,
     .qk_norm = true,
     .kv_head_count = 4,
     .sliding_window = 4096,
     .needs_window_switch = true},
    {.model_types = "qwen3_next qwen3_5 qwen3_5_text qwen3_5_moe qwen3_5_moe_text",
     .has_experts = true,
     .qk_norm = true,
     .output_gate = true},
    {.model_types = "minicpm3",
     .tied_embeddings = true,
     .q_lora_rank = 768,
     .v_head_dim_is_derived = true},
    {.model_types = "deepseek bailing_moe bailing_moe_v2 bailing_moe_linear bailing_moe_linear_v2 "
                    "dots1 granitemoe minimax_m1 minimax_text_01 minimax mimo_v2_flash "
                    "kimi_linear hunyuan hunyuan_v1_moe dbrx",
     .has_experts = true},
    {.model_types = "deepseek_v2",
     .has_experts = true,
     .shared_expert_count = 2,
     .q_lora_rank = 1536},
    {.model_types = "deepseek_v3 deepseek_v32 kimi_k2 kimi_k25 glm4_moe_lite glm_moe_dsa",
     .has_experts = true,
     .first_dense_layer_count = 3,
     .shared_expert_count = 1,
     .q_lora_rank = 1536},
    {.model_types = "glm4_moe glm4v_moe_text",
     .has_experts = true,
     .attention_bias_is_qkv = true,
     .first_dense_layer_count = 1,
     .shared_expert_count = 1},
    {.model_types = "minimax_m2",
     .has_experts = true,
     .qk_norm = true,
     .qk_norm_spans_heads = true},
    {.model_types = "hunyuan_v1_dense", .qk_norm = true},
    {.model_types = "glm4", .attention_bias_is_qkv = true, .post_norms = true},
    {.model_types = "chatglm", .biases = LinearBiases::kQkv},
    {.model_types = "glm", .biases = LinearBiases::kQkv, .attention_bias_is_qkv = true},
    {.model_types = "llama4 llama4_text", .has_experts = true, .expert_is_shared = true},
    {.model_types = "gemma",
     .mlp = MlpKind::kGeglu,
     .tied_embeddings = true,
     .scales_embeddings = true},
    {.model_types = "gemma2",
     .mlp = MlpKind::kGeglu,
     .tied_embeddings = true,
     .post_norms = true,
     .attention_soft_cap = 50,
     .output_soft_cap = 30,
     .attention_divisor = 256,
     .scales_embeddings = true,
     .sliding_window = 4096,
     .window_pattern = 2},
    {.model_types = "gemma3 gemma3_text",
     .mlp = MlpKind::kGeglu,
     .tied_embeddings = true,
     .qk_norm = true,
     .post_norms = true,
     .attention_divisor = 256,
     .scales_embeddings = true,
     .kv_head_count = 4,
     .head_dim = 256,
     .attention_head_count = 8,
     .vocab_size = 262208,
     .sliding_window = 4096,
     .window_pattern = 6},
    {.model_types = "gemma4 gemma4_text",
     .mlp = MlpKind::kGeglu,
     .tied_embeddings = true,
     .has_experts = true,
     .qk_norm = true,
     .post_norms = true,
     .scales_embeddings = true,
     .window_pattern = 6},
    {.model_types = "gpt_oss",
     .mlp = MlpKind::kQuickGeglu,
     .has_experts = true,
     .biases = LinearBiases::kAll,
     .attention_sinks = true,
     .glu_offset = 1,
     .activation_clamp = 7,
     .window_pattern = 2},
    {.model_types = "nemotron_h nemotron_h_v2", .mlp = MlpKind::kGelu, .has_experts = true},
    {.model_types = "nemotron", .norm = NormKind::kLayernorm, .mlp = MlpKind::kGelu},
    {.model_types = "phi",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .biases = LinearBiases::kAll,
     .is_parallel = true},
    {
        .model_types = "phi3 phi4 phi4mm phi4_multimodal",
    },
    {.model_types = "phimoe", .norm = NormKind::kLayernorm, .has_experts = true},
    {.model_types = "granitemoehybrid", .has_experts = true},
    {.model_types = "starcoder2",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .tied_embeddings = true,
     .biases = LinearBiases::kAll},
    {.model_types = "falcon",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .tied_embeddings = true,
     .is_parallel = true},
    {.model_types = "falcon_h1", .mixes_both = true},
    {.model_types = "internlm internlm2", .bias_is_of_attention = true},
    {.model_types = "jamba", .has_experts = true},
    {.model_types = "olmoe", .has_experts = true, .qk_norm = true, .qk_norm_spans_heads = true},
    {.model_types = "olmo2",
     .qk_norm = true,
     .qk_norm_spans_heads = true,
     .post_norms = true,
     .pre_norms = false},
    {.model_types = "olmo3",
     .qk_norm = true,
     .qk_norm_spans_heads = true,
     .post_norms = true,
     .pre_norms = false,
     .sliding_window = 4096,
     .window_pattern = 4},
    {.model_types = "cohere",
     .norm = NormKind::kLayernorm,
     .tied_embeddings = true,
     .is_parallel = true},
    {.model_types = "cohere2",
     .norm = NormKind::kLayernorm,
     .tied_embeddings = true,
     .is_parallel = true,
     .sliding_window = 4096,
     .window_pattern = 4},
    {.model_types = "gpt2",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .tied_embeddings = true,
     .biases = LinearBiases::kAll,
     .position_count = 1024},
    {.model_types = "gpt_bigcode",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .tied_embeddings = true,
     .biases = LinearBiases::kAll,
     .position_count = 1024},
    {.model_types = "gpt_neox",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .biases = LinearBiases::kAll,
     .is_parallel = true},
    {.model_types = "gptj codegen",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .biases = LinearBiases::kFeedForward,
     .is_parallel = true},
    {.model_types = "opt",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .tied_embeddings = true,
     .biases = LinearBiases::kAll,
     .position_count = 2048},
    {.model_types = "bloom",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .tied_embeddings = true,
     .biases = LinearBiases::kAll},
    {.model_types = "mpt",
     .norm = NormKind::kLayernorm,
     .mlp = MlpKind::kGelu,
     .tied_embeddings = true},
    {.model_types = "mamba", .tied_embeddings = true},
    {.model_types = "mamba2 falcon_mamba"},
    {.model_types = "ernie4_5", .tied_embeddings = true},
    {.model_types = "ernie4_5_moe", .tied_embeddings = true, .has_experts = true},
    {.model_types = "seed_oss", .attention_bias_is_qkv = true, .head_dim = 128},
};

// A type that is not in the table is read by its keys only.
constexpr Family kUnknown = {.model_types = "", .has_experts = true};

}  // namespace

const Family& FamilyOf(std::string_view model_type) {
  const auto* found = std::ranges::find_if(
      kFamilies, [&](const Family& family) { return HasWord(family.model_types, model_type); });
  return found == std::end(kFamilies) ? kUnknown : *found;
}

std::string_view FamilyWord(std::string_view plain) {
  for (const Family& family : kFamilies) {
    std::string_view words = family.model_types;
    while (!words.empty()) {
      const std::size_t end = std::min(words.find(' '), words.size());
      const std::string_view word = words.substr(0, end);
      std::string bare(word);
      std::erase(bare, '_');
      if (bare == plain) return word;
      words.remove_prefix(std::min(end + 1, words.size()));
    }
  }
  return "";
}

bool IsKnownFamily(std::string_view model_type) { return &FamilyOf(model_type) != &kUnknown; }

}  // namespace meshwright

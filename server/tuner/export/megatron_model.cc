#include <fmt/format.h>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/flag_list.h"
#include "server/tuner/export/megatron_flags.h"

namespace meshwright {
namespace {

void AddAttention(const ModelSpec& model, FlagList& flags) {
  flags.Add("--num-attention-heads", model.attention_head_count);
  if (model.mla.has_value()) {
    const MlaSpec& mla = *model.mla;
    flags.Add("--multi-latent-attention");
    if (mla.q_lora_rank > 0) flags.Add("--q-lora-rank", mla.q_lora_rank);
    flags.Add("--kv-lora-rank", mla.kv_lora_rank);
    flags.Add("--qk-head-dim", mla.qk_nope_head_dim);
    flags.Add("--qk-pos-emb-head-dim", mla.qk_rope_head_dim);
    flags.Add("--v-head-dim", mla.v_head_dim);
    // Without it validate_args requires that heads divide the hidden size.
    flags.Add("--kv-channels", mla.v_head_dim);
    return;
  }
  if (model.kv_head_count != model.attention_head_count) {
    flags.Add("--group-query-attention");
    flags.Add("--num-query-groups", model.kv_head_count);
  }
  flags.Add("--kv-channels", model.head_dim);
}

void AddFeedForward(const ModelSpec& model, FlagList& flags) {
  // A model whose layers all have experts has no size of a dense layer.
  if (model.ffn_hidden_size > 0) flags.Add("--ffn-hidden-size", model.ffn_hidden_size);
  switch (model.mlp) {
    case MlpKind::kGelu:
      return;  // the default
    case MlpKind::kSwiglu:
      flags.Add("--swiglu");
      return;
    case MlpKind::kGeglu:
      flags.Refuse("model.mlp",
                   "geglu; Megatron-Core has gelu and swiglu, and its --quick-geglu is another "
                   "function");
      return;
  }
}

// Adds the norm's flags. Models with RMSNorm follow PaLM and Llama: no biases, rotary positions.
// The others keep the defaults (biases; positions as the user's recipe states).
void AddNorm(const ModelSpec& model, FlagList& flags) {
  switch (model.norm) {
    case NormKind::kLayernorm:
      flags.Add("--normalization", "LayerNorm");
      return;
    case NormKind::kRmsnorm:
      flags.Add("--normalization", "RMSNorm");
      flags.Add("--disable-bias-linear");
      flags.Add("--position-embedding-type", "rope");
      return;
  }
}

void AddExperts(const ModelSpec& model, const Workload& workload, FlagList& flags) {
  if (!model.moe.has_value()) return;
  const MoeSpec& moe = *model.moe;
  flags.Add("--num-experts", moe.expert_count);
  flags.Add("--moe-router-topk", moe.experts_per_token);
  flags.Add("--moe-ffn-hidden-size", moe.expert_ffn_hidden_size);
  if (moe.shared_expert_ffn_hidden_size > 0) {
    flags.Add("--moe-shared-expert-intermediate-size", moe.shared_expert_ffn_hidden_size);
  }
  if (moe.first_dense_layer_count > 0) {
    flags.Add("--moe-layer-freq", fmt::format("'([0]*{}+[1]*{})'", moe.first_dense_layer_count,
                                              model.layer_count - moe.first_dense_layer_count));
  }
  if (!workload.grouped_gemm) return;
  if (workload.precision == Precision::kBf16 || workload.precision == Precision::kFp8) {
    flags.Add("--moe-grouped-gemm");
  } else {
    flags.Refuse("workload.grouped_gemm",
                 fmt::format("true with {}; Megatron-Core's grouped GEMM needs bf16 parameters",
                             Word(workload.precision)));
  }
}

}  // namespace

void AddMegatronModelFlags(const ModelSpec& model, const Workload& workload, FlagList& flags) {
  flags.Add("--num-layers", model.layer_count);
  flags.Add("--hidden-size", model.hidden_size);
  AddFeedForward(model, flags);
  AddAttention(model, flags);
  if (model.sliding_window > 0) {
    // (left, right), without the token itself
    flags.Add("--window-size", fmt::format("{},0", model.sliding_window - 1));
  }
  AddNorm(model, flags);
  flags.Add("--vocab-size", model.vocab_size);
  if (!model.tied_embeddings) flags.Add("--untie-embeddings-and-output-weights");
  AddExperts(model, workload, flags);
  if (model.mtp_layer_count > 0) {
    flags.Add("--mtp-num-layers", model.mtp_layer_count);
    if (model.norm == NormKind::kLayernorm) {
      flags.Refuse("model.mtp_layer_count",
                   fmt::format("{} with layernorm; Megatron-Core's multi-token prediction needs "
                               "rotary positions",
                               model.mtp_layer_count));
    }
  }
}

void AddMegatronSequenceFlags(const Workload& workload, FlagList& flags) {
  flags.Add("--seq-length", workload.sequence_length);
  flags.Add("--max-position-embeddings", workload.sequence_length);
}

std::vector<std::string> MegatronLeftOut(const ModelSpec& model) {
  std::vector<std::string> left_out = {
      "data and tokenizer: --data-path, --tokenizer-type, --tokenizer-model",
      "length and learning rate: --train-iters, --lr, --min-lr, --lr-decay-style, "
      "--lr-warmup-iters, --weight-decay, --clip-grad",
      "checkpoints: --save, --load, --save-interval",
      "of the model: --norm-epsilon, --init-method-std"};
  if (model.norm == NormKind::kLayernorm) {
    left_out.emplace_back("of the model: --position-embedding-type, and --rotary-base with rope");
  } else {
    left_out.emplace_back("of the model: --rotary-base, and --use-rope-scaling if it has one");
  }
  if (model.mla.has_value()) {
    left_out.emplace_back(
        "of the model: --qk-layernorm, --rope-type, --rotary-scaling-factor, --mscale, "
        "--mscale-all-dim");
  } else {
    left_out.emplace_back(
        "of the model, if it has them: --add-qkv-bias (biases of queries, keys and values), "
        "--qk-layernorm (norms of queries and keys)");
  }
  if (model.moe.has_value()) {
    left_out.emplace_back(
        "of the router: --moe-router-score-function, --moe-router-load-balancing-type, "
        "--moe-aux-loss-coeff, --moe-router-topk-scaling-factor, --moe-router-num-groups, "
        "--moe-router-group-topk, --moe-router-enable-expert-bias, --moe-router-bias-update-rate");
    left_out.emplace_back(
        "of the experts: --moe-expert-capacity-factor (no token is dropped without it)");
  }
  if (model.mtp_layer_count > 0) {
    left_out.emplace_back("of multi-token prediction: --mtp-loss-scaling-factor");
  }
  return left_out;
}

}  // namespace meshwright

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"
#include "server/tuner/export/megatron_flags.h"
#include "server/tuner/export/megatron_layers.h"
#include "server/tuner/export/text/flag_list.h"

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
    // The norms of the latents are a part of latent attention (DeepSeek-V2: q_a_layernorm and
    // kv_a_layernorm).
    flags.Add("--qk-layernorm");
    return;
  }
  if (model.kv_head_count != model.attention_head_count) {
    flags.Add("--group-query-attention");
    flags.Add("--num-query-groups", model.kv_head_count);
  }
  flags.Add("--kv-channels", model.head_dim);
  if (BiasesOf(model) == LinearBiases::kQkv) flags.Add("--add-qkv-bias");
  if (model.qk_norm) flags.Add("--qk-layernorm");
  if (model.attention_sinks) flags.Add("--softmax-type", "learnable");
}

// Adds what the model's own configuration states.
void AddStated(const ModelSpec& model, FlagList& flags) {
  if (model.rotary_base.has_value()) flags.Add("--rotary-base", std::round(*model.rotary_base));
  if (model.norm_epsilon.has_value()) flags.Add("--norm-epsilon", *model.norm_epsilon);
}

// Adds the function of the feed-forward. Only --quick-geglu has an offset and a limit there
// (megatron/training/arguments.py: --activation-func-clamp-value).
void AddActivation(const ModelSpec& model, FlagList& flags) {
  switch (model.mlp) {
    case MlpKind::kGelu:
      break;  // the default
    case MlpKind::kSwiglu:
      flags.Add("--swiglu");
      break;
    case MlpKind::kSquaredRelu:
      flags.Add("--squared-relu");
      // The fused biases are those of gelu.
      if (HasFeedForwardBias(model)) flags.Add("--no-bias-gelu-fusion");
      break;
    case MlpKind::kQuickGeglu:
      flags.Add("--quick-geglu");
      if (model.glu_offset != 0) flags.Add("--glu-linear-offset", model.glu_offset);
      if (model.activation_clamp.has_value()) {
        flags.Add("--activation-func-clamp-value", *model.activation_clamp);
      }
      return;
    case MlpKind::kGeglu:
    case MlpKind::kRelu:
      flags.Refuse("model.mlp", fmt::format("{}; Megatron-Core has gelu, swiglu, quick_geglu and "
                                            "squared_relu",
                                            Word(model.mlp)));
      break;
  }
  if (model.glu_offset != 0) {
    flags.Refuse("model.glu_offset",
                 fmt::format("{} with {}; Megatron-Core has it with quick_geglu only",
                             model.glu_offset, Word(model.mlp)));
  }
  if (model.activation_clamp.has_value()) {
    flags.Refuse("model.activation_clamp",
                 fmt::format("{} with {}; Megatron-Core has it with quick_geglu only",
                             *model.activation_clamp, Word(model.mlp)));
  }
}

void AddFeedForward(const ModelSpec& model, FlagList& flags) {
  // A model whose layers all have experts has no size of a dense layer.
  if (model.ffn_hidden_size > 0) flags.Add("--ffn-hidden-size", model.ffn_hidden_size);
  AddActivation(model, flags);
}

// Adds which linear layers have no bias; without a flag all have one. AddAttention adds
// --add-qkv-bias.
void AddBiases(const ModelSpec& model, FlagList& flags) {
  const LinearBiases biases = BiasesOf(model);
  switch (biases) {
    case LinearBiases::kAll:
      return;
    case LinearBiases::kNone:
    case LinearBiases::kQkv:
      flags.Add("--disable-bias-linear");
      return;
    case LinearBiases::kAttention:
    case LinearBiases::kFeedForward:
      flags.Refuse(
          "model.biases",
          fmt::format("{}; Megatron-Core has biases of all linear layers, of queries, keys "
                      "and values, or none",
                      Word(biases)));
      return;
  }
}

// Adds the norm's flag and those of biases. Models with RMSNorm follow PaLM and Llama in their
// rotary positions. The others keep the default (positions as the user's recipe states).
void AddNormAndBiases(const ModelSpec& model, FlagList& flags) {
  switch (model.norm) {
    case NormKind::kLayernorm:
      flags.Add("--normalization", "LayerNorm");
      AddBiases(model, flags);
      return;
    case NormKind::kRmsnorm:
      flags.Add("--normalization", "RMSNorm");
      AddBiases(model, flags);
      flags.Add("--position-embedding-type", "rope");
      return;
  }
}

// Adds how the router chooses, as far as the model states it. Without these flags Megatron-Core
// takes the experts with the largest scores of a softmax.
void AddRouter(const MoeSpec& moe, FlagList& flags) {
  if (moe.router_score.has_value()) {
    flags.Add("--moe-router-score-function", Word(*moe.router_score));
  }
  if (moe.group_count > 0) {
    flags.Add("--moe-router-num-groups", moe.group_count);
    flags.Add("--moe-router-group-topk", moe.groups_per_token);
  }
  if (moe.routed_scaling_factor.has_value()) {
    flags.Add("--moe-router-topk-scaling-factor", *moe.routed_scaling_factor);
  }
  if (!moe.router_bias) return;
  flags.Add("--moe-router-enable-expert-bias");
  if (moe.router_score != RouterScore::kSigmoid) {
    flags.Refuse("model.moe.router_bias",
                 fmt::format("true with {}; must be with sigmoid in Megatron-Core",
                             moe.router_score.has_value() ? Word(*moe.router_score)
                                                          : "no stated router_score"));
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
  AddRouter(moe, flags);
  AddMegatronExpertLayers(model, flags);
  if (!workload.grouped_gemm) return;
  // TEGroupedMLP: bias_dropout_fusion is not supported with biases.
  if (HasFeedForwardBias(model)) flags.Add("--no-bias-dropout-fusion");
  if (workload.precision == Precision::kBf16 || workload.precision == Precision::kFp8) {
    flags.Add("--moe-grouped-gemm");
  } else {
    flags.Refuse("workload.grouped_gemm",
                 fmt::format("true with {}; Megatron-Core's grouped GEMM needs bf16 parameters",
                             Word(workload.precision)));
  }
}

// Returns the facts of the scaling of rotary positions that no flag says.
std::string RopeLeftOut(const ModelSpec& model) {
  const RopeScaling& scaling = *model.rope_scaling;
  std::vector<std::string> facts;
  const bool has_flags = model.mla.has_value() == (scaling.kind == RopeScalingKind::kYarn);
  if (!has_flags) {
    facts.push_back(fmt::format("{} rope scaling by {}", Word(scaling.kind), scaling.factor));
  }
  if (scaling.original_position_count > 0) {
    facts.push_back(
        fmt::format("original_max_position_embeddings = {}", scaling.original_position_count));
  }
  if (scaling.beta_fast.has_value()) {
    facts.push_back(fmt::format("beta_fast = {}", *scaling.beta_fast));
  }
  if (scaling.beta_slow.has_value()) {
    facts.push_back(fmt::format("beta_slow = {}", *scaling.beta_slow));
  }
  if (facts.empty()) facts.emplace_back("original_max_position_embeddings");
  return fmt::format("of the model, without a flag: {}", fmt::join(facts, ", "));
}

// Returns the factors of the model, which no flag says and which change neither time nor memory.
std::string FactorsLeftOut(const ModelSpec& model) {
  std::vector<std::string> facts;
  const auto add = [&](std::string_view name, const std::optional<double>& factor) {
    if (factor.has_value()) facts.push_back(fmt::format("{} = {}", name, *factor));
  };
  add("attention_scale", model.attention_scale);
  add("embedding_scale", model.embedding_scale);
  add("residual_scale", model.residual_scale);
  add("output_scale", model.output_scale);
  if (facts.empty()) return "";
  return fmt::format("of the model, without a flag: {}", fmt::join(facts, ", "));
}

// Returns the flags of the router that the model does not state.
std::string RouterLeftOut(const MoeSpec& moe) {
  std::string flags = "of the router: --moe-router-load-balancing-type, --moe-aux-loss-coeff";
  const bool is_known = moe.router_score.has_value();
  if (!is_known) flags += ", --moe-router-score-function";
  if (!is_known && moe.group_count == 0) {
    flags += ", --moe-router-num-groups, --moe-router-group-topk";
  }
  if (!moe.routed_scaling_factor.has_value()) flags += ", --moe-router-topk-scaling-factor";
  if (!is_known) flags += ", --moe-router-enable-expert-bias";
  if (!is_known || moe.router_bias) flags += ", --moe-router-bias-update-rate";
  if (moe.router_score == RouterScore::kSoftmax) flags += ", --moe-router-pre-softmax";
  return flags;
}

}  // namespace

void AddMegatronModelFlags(const ModelSpec& model, const Workload& workload, FlagList& flags) {
  RefuseMegatronLayers(model, flags);
  flags.Add("--num-layers", model.layer_count);
  flags.Add("--hidden-size", model.hidden_size);
  AddFeedForward(model, flags);
  AddAttention(model, flags);
  AddMegatronWindows(model, flags);
  AddNormAndBiases(model, flags);
  AddStated(model, flags);
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

void AddMegatronRopeFlags(const ModelSpec& model, FlagList& flags) {
  if (!model.rope_scaling.has_value()) return;
  const RopeScaling& scaling = *model.rope_scaling;
  if (model.mla.has_value() && scaling.kind == RopeScalingKind::kYarn) {
    flags.Add("--rope-type", "yarn");
    flags.Add("--rotary-scaling-factor", scaling.factor);
    if (scaling.mscale.has_value()) flags.Add("--mscale", *scaling.mscale);
    if (scaling.mscale_all_dim.has_value()) flags.Add("--mscale-all-dim", *scaling.mscale_all_dim);
  } else if (!model.mla.has_value() && scaling.kind == RopeScalingKind::kLlama3) {
    flags.Add("--use-rope-scaling");
    flags.Add("--rope-scaling-factor", scaling.factor);
  }
}

void AddMegatronSequenceFlags(const Workload& workload, FlagList& flags) {
  flags.Add("--seq-length", workload.sequence_length);
  flags.Add("--max-position-embeddings", workload.sequence_length);
}

void RefuseOtherThanGpt(const ModelSpec& model, std::string_view framework, FlagList& flags) {
  if (model.norm != NormKind::kLayernorm) {
    flags.Refuse("model.norm", fmt::format("{}; must be layernorm, the only norm of {}",
                                           Word(model.norm), framework));
  }
  if (!model.tied_embeddings) {
    flags.Refuse("model.tied_embeddings",
                 fmt::format("false; must be true, because the output layer of {} is the embedding",
                             framework));
  }
}

std::string StatedFacts(const ModelSpec& model) {
  std::vector<std::string> facts;
  if (model.moe.has_value()) {
    const MoeSpec& moe = *model.moe;
    if (moe.router_score.has_value()) {
      facts.push_back(fmt::format("router_score = {}", Word(*moe.router_score)));
    }
    if (moe.group_count > 0) {
      facts.push_back(fmt::format("group_count = {}, groups_per_token = {}", moe.group_count,
                                  moe.groups_per_token));
    }
    if (moe.routed_scaling_factor.has_value()) {
      facts.push_back(fmt::format("routed_scaling_factor = {}", *moe.routed_scaling_factor));
    }
    if (moe.router_bias) facts.emplace_back("router_bias = true");
  }
  if (model.rope_scaling.has_value()) {
    facts.push_back(fmt::format("rope_scaling = {} by {}", Word(model.rope_scaling->kind),
                                model.rope_scaling->factor));
  }
  return facts.empty() ? "" : fmt::format("of the model: {}", fmt::join(facts, ", "));
}

std::vector<std::string> MegatronLeftOut(const ModelSpec& model) {
  std::vector<std::string> left_out = {
      "data and tokenizer: --data-path, --tokenizer-type, --tokenizer-model",
      "length and learning rate: --train-iters, --lr, --min-lr, --lr-decay-style, "
      "--lr-warmup-iters, --weight-decay, --clip-grad",
      "checkpoints: --save, --load, --save-interval",
      model.norm_epsilon.has_value() ? "of the model: --init-method-std"
                                     : "of the model: --norm-epsilon, --init-method-std"};
  const bool has_scaling = model.rope_scaling.has_value();
  if (has_scaling) left_out.push_back(RopeLeftOut(model));
  if (model.rotary_base.has_value()) {
    if (!has_scaling && !model.mla.has_value()) {
      left_out.emplace_back("of the model: --use-rope-scaling if it has one");
    }
  } else if (model.norm == NormKind::kLayernorm) {
    left_out.emplace_back("of the model: --position-embedding-type, and --rotary-base with rope");
  } else {
    left_out.emplace_back(
        has_scaling ? "of the model: --rotary-base"
                    : "of the model: --rotary-base, and --use-rope-scaling if it has one");
  }
  if (model.mla.has_value()) {
    if (!has_scaling) {
      left_out.emplace_back(
          "of the model: --rope-type, --rotary-scaling-factor, --mscale, --mscale-all-dim");
    }
  } else if (BiasesOf(model) == LinearBiases::kNone && !model.qk_norm) {
    left_out.emplace_back(
        "of the model, if it has them: --add-qkv-bias (biases of queries, keys and values), "
        "--qk-layernorm (norms of queries and keys)");
  }
  if (std::string factors = FactorsLeftOut(model); !factors.empty()) {
    left_out.push_back(std::move(factors));
  }
  if (model.moe.has_value()) {
    left_out.push_back(RouterLeftOut(*model.moe));
    left_out.emplace_back(
        "of the experts: --moe-expert-capacity-factor (no token is dropped without it)");
  }
  if (model.mtp_layer_count > 0) {
    left_out.emplace_back("of multi-token prediction: --mtp-loss-scaling-factor");
  }
  return left_out;
}

}  // namespace meshwright

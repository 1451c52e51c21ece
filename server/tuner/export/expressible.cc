#include "server/tuner/export/expressible.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "estimator/layer/layer_split.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"

namespace meshwright {
namespace {

bool Has(std::span<const int> values, int value) {
  return std::ranges::find(values, value) != values.end();
}

// Refuses fields of one problem and plan in the name of one framework.
class FieldCheck {
 public:
  FieldCheck(const Expressible& expressible, Refusals& refusals)
      : expressible_(expressible), refusals_(refusals) {}

  // Refuses the field if `is_known` is false.
  void Know(bool is_known, std::string_view field, std::string_view value,
            std::string_view what_exists) {
    if (is_known) return;
    refusals_.Refuse(field, fmt::format("{}; {} {}", value, expressible_.framework, what_exists));
  }

  template <typename Enum>
  void KnowWord(std::span<const Enum> known, std::string_view field, Enum value) {
    std::string words;
    for (const Enum word : known) {
      if (word == value) return;
      words += fmt::format("{}{}", words.empty() ? "" : ", ", Word(word));
    }
    refusals_.Refuse(field, fmt::format("{}; {} has {}", Word(value), expressible_.framework,
                                        words.empty() ? "none" : words));
  }

 private:
  const Expressible& expressible_;
  Refusals& refusals_;
};

void CheckTensor(const ParallelPlan& plan, const Expressible& can, FieldCheck& check) {
  if (plan.tensor_parallel == 1) return;
  const std::string size = fmt::format("{}", plan.tensor_parallel);
  check.Know(can.tensor_parallel, "plan.tensor_parallel", size, "has no tensor parallelism");
  if (!can.tensor_parallel) return;
  check.Know(can.sequence_parallel || !plan.sequence_parallel, "plan.sequence_parallel", "true",
             "has no sequence parallelism");
  check.Know(!can.needs_sequence_parallel || plan.sequence_parallel, "plan.sequence_parallel",
             "false", "always splits the sequence with tensor parallelism");
}

void CheckPipeline(const Problem& problem, const ParallelPlan& plan, const Expressible& can,
                   FieldCheck& check) {
  if (plan.pipeline_parallel == 1) return;
  check.Know(can.pipeline_parallel, "plan.pipeline_parallel",
             fmt::format("{}", plan.pipeline_parallel), "has no setting for pipelines");
  if (!can.pipeline_parallel) return;
  check.KnowWord(can.schedules, "plan.schedule", plan.schedule);
  const bool is_usual =
      plan.layers_per_stage.empty() ||
      plan.layers_per_stage == SplitLayers(problem.model, problem.profile, plan.pipeline_parallel);
  check.Know(can.layers_per_stage || is_usual, "plan.layers_per_stage",
             fmt::format("[{}]", fmt::join(plan.layers_per_stage, ", ")),
             "splits the layers by itself");
  check.Know(can.pipeline_inside || plan.rank_order == RankOrder::kTpCpEpDpPp, "plan.rank_order",
             Word(plan.rank_order), "numbers pipelines outside of data parallelism");
}

void CheckContextAndExperts(const Problem& problem, const ParallelPlan& plan,
                            const Expressible& can, FieldCheck& check) {
  if (plan.context_parallel > 1) {
    check.KnowWord(can.context_parallel_kinds, "plan.context_parallel_kind",
                   plan.context_parallel_kind);
  }
  if (!problem.model.moe.has_value()) return;
  check.Know(can.experts, "model.moe", fmt::format("{} experts", problem.model.moe->expert_count),
             "has no setting for experts");
  check.Know(can.expert_parallel || plan.expert_parallel == 1, "plan.expert_parallel",
             fmt::format("{}", plan.expert_parallel), "has no expert parallelism");
  check.Know(can.expert_tensor_parallel || plan.expert_tensor_parallel == 1,
             "plan.expert_tensor_parallel", fmt::format("{}", plan.expert_tensor_parallel),
             "has no size of its own for the tensor parallelism of experts");
}

void CheckSharding(const ParallelPlan& plan, const Expressible& can, FieldCheck& check) {
  const int replicas = plan.data_parallel * plan.context_parallel;
  check.Know(Has(can.zero_stages, plan.zero_stage), "plan.zero_stage",
             fmt::format("{}", plan.zero_stage),
             fmt::format("has ZeRO {}", fmt::join(can.zero_stages, ", ")));
  const bool has_groups =
      plan.zero_stage > 0 && plan.zero_group_size > 0 && plan.zero_group_size != replicas;
  check.Know(can.zero_groups || !has_groups, "plan.zero_group_size",
             fmt::format("{}", plan.zero_group_size), "shards over all replicas");
  check.Know(plan.whole_weights_ratio == 0, "plan.whole_weights_ratio",
             fmt::format("{}", plan.whole_weights_ratio),
             "shards the weights of all layers or of none");
  check.Know(can.optimizer_offload || plan.optimizer_offload_ratio == 0,
             "plan.optimizer_offload_ratio", fmt::format("{}", plan.optimizer_offload_ratio),
             "keeps the optimizer on the device");
  check.Know(can.activation_offload || plan.activation_offload_ratio == 0,
             "plan.activation_offload_ratio", fmt::format("{}", plan.activation_offload_ratio),
             "keeps activations on the device");
}

std::string_view Word(RecomputeForm form) {
  switch (form) {
    case RecomputeForm::kNothing:
      return "nothing";
    case RecomputeForm::kSelective:
      return "parts of every layer";
    case RecomputeForm::kEveryLayer:
      return "every layer";
    case RecomputeForm::kSomeLayers:
      return "some layers of a stage";
  }
  return "";
}

void CheckRecompute(const Problem& problem, const ParallelPlan& plan, const Expressible& can,
                    FieldCheck& check) {
  const RecomputeForm form = RecomputeFormOf(problem, plan);
  std::string forms;
  for (const RecomputeForm known : can.recompute) {
    forms += fmt::format("{}{}", forms.empty() ? "" : ", ", Word(known));
  }
  const bool is_known = std::ranges::find(can.recompute, form) != can.recompute.end();
  check.Know(is_known, "plan.recompute", Word(form), "recomputes one of: " + forms);
  if (!is_known || form != RecomputeForm::kSelective || plan.recompute.modules.empty()) return;
  const auto& usual = problem.profile.selective_modules;
  check.Know(plan.recompute.modules == usual, "plan.recompute.modules",
             fmt::format("{}", fmt::join(plan.recompute.modules, ", ")),
             fmt::format("recomputes {}", fmt::join(usual, ", ")));
}

void CheckWorkload(const Problem& problem, const ParallelPlan& plan, const Expressible& can,
                   FieldCheck& check) {
  const Workload& workload = problem.workload;
  check.KnowWord(can.precisions, "workload.precision", workload.precision);
  const bool has_fp8 = std::ranges::find(can.precisions, Precision::kFp8) != can.precisions.end();
  if (workload.precision == Precision::kFp8 && has_fp8) {
    check.KnowWord(can.fp8_recipes, "workload.fp8_recipe", workload.fp8_recipe);
  }
  check.KnowWord(can.gradient_dtypes, "workload.gradient_dtype", workload.gradient_dtype);
  check.KnowWord(can.optimizers, "workload.optimizer", workload.optimizer);
  check.KnowWord(can.attention_kernels, "workload.attention_kernel", workload.attention_kernel);
  check.Know(can.tensor_overlap || plan.tensor_parallel == 1 || !workload.overlap.tensor_parallel,
             "workload.overlap.tensor_parallel", "true", "has no setting for it");
  const bool is_sharded = plan.zero_stage >= 2 && plan.data_parallel * plan.context_parallel > 1;
  const bool is_overlapped = workload.overlap.gradient_reduce && workload.overlap.parameter_gather;
  check.Know(!can.always_overlaps_sharding || !is_sharded || is_overlapped, "workload.overlap",
             "partly false", "overlaps the collectives of sharded weights always");
  check.Know(can.dropout || workload.dropout_ratio == 0, "workload.dropout_ratio",
             fmt::format("{}", workload.dropout_ratio), "has no setting for it");
}

void CheckExchange(const Problem& problem, const ParallelPlan& plan, const Expressible& can,
                   FieldCheck& check) {
  const Workload& workload = problem.workload;
  if (!problem.model.moe.has_value() || !can.experts) return;
  check.Know(workload.moe.capacity_factor == 0, "workload.moe.capacity_factor",
             fmt::format("{}", workload.moe.capacity_factor), "has no setting for it here");
  if (plan.expert_parallel == 1) return;
  const MoeDispatcher dispatcher = workload.moe.dispatcher;
  // The usual one of another framework was not asked for.
  const bool is_stated = std::ranges::none_of(
      problem.applied_defaults,
      [](const AppliedDefault& applied) { return applied.field == "workload.moe.dispatcher"; });
  check.Know(!is_stated || dispatcher == MoeDispatcher::kAlltoall ||
                 (can.gathers_tokens && dispatcher == MoeDispatcher::kAllgather),
             "workload.moe.dispatcher", Word(dispatcher), "has no setting for it here");
  check.Know(workload.moe.dispatch_dtype == DispatchDtype::kBf16, "workload.moe.dispatch_dtype",
             Word(workload.moe.dispatch_dtype), "has no setting for it here");
  check.Know(!workload.overlap.expert_parallel, "workload.overlap.expert_parallel", "true",
             "has no setting for it here");
  check.Know(!workload.overlap.shared_expert, "workload.overlap.shared_expert", "true",
             "has no setting for it here");
}

// Checks the norms, biases and forms of attention that only some models have.
void CheckForms(const ModelSpec& model, const Expressible& can, FieldCheck& check) {
  check.Know(!model.post_norms, "model.post_norms", "true",
             "has no norms after attention and feed-forward");
  check.Know(model.pre_norms, "model.pre_norms", "false",
             "has norms before attention and feed-forward");
  check.Know(!model.qk_norm_spans_heads, "model.qk_norm_spans_heads", "true",
             "has norms of each head of queries and keys");
  check.Know(!model.attention_sinks, "model.attention_sinks", "true", "has no sinks of attention");
  check.Know(!model.parallel_feed_forward, "model.parallel_feed_forward", "true",
             "has a feed-forward that reads the output of attention");
  const bool is_switch = model.biases == LinearBiases::kAll || model.biases == LinearBiases::kNone;
  if (model.biases.has_value() && !(can.biases && is_switch)) {
    check.Know(false, "model.biases", Word(*model.biases),
               "has the biases that its norm has, or those of queries, keys and values");
  }
  check.Know(model.glu_offset == 0, "model.glu_offset", fmt::format("{}", model.glu_offset),
             "has no offset of what the gate multiplies");
  const auto is_without = [&](std::string_view field, const std::optional<double>& value,
                              std::string_view what_exists) {
    if (value.has_value()) check.Know(false, field, fmt::format("{}", *value), what_exists);
  };
  is_without("model.activation_clamp", model.activation_clamp, "has no limit of the activation");
  is_without("model.attention_soft_cap", model.attention_soft_cap,
             "does not bound the scores of attention");
  is_without("model.output_soft_cap", model.output_soft_cap, "does not bound the logits");
}

void CheckModel(const ModelSpec& model, const Expressible& can, FieldCheck& check) {
  check.KnowWord(can.mlps, "model.mlp", model.mlp);
  check.Know(can.layer_norm || model.norm == NormKind::kRmsnorm, "model.norm", Word(model.norm),
             "has models with rmsnorm");
  if (model.mla.has_value()) {
    check.Know(can.latent_attention, "model.mla",
               fmt::format("a rank of {} for keys and values", model.mla->kv_lora_rank),
               "has no latent attention");
  }
  check.Know(can.sliding_window || model.sliding_window == 0, "model.sliding_window",
             fmt::format("{}", model.sliding_window), "has full attention");
  check.Know(can.multi_token_prediction || model.mtp_layer_count == 0, "model.mtp_layer_count",
             fmt::format("{}", model.mtp_layer_count),
             "has no multi-token prediction: plan without it (0), or for megatron-core, flagscale, "
             "mindspeed or maxtext");
  if (can.any_layers) return;
  check.Know(!model.attention_output_gate, "model.attention_output_gate", "true",
             "has no gate on the output of attention");
  CheckForms(model, can, check);
  check.Know(model.layers.empty(), "model.layers",
             fmt::format("{} runs of layers", model.layers.size()),
             "has one kind of layer, or dense layers before those with experts");
  check.Know(!model.mla.has_value() || model.mla->index_head_count == 0,
             "model.mla.index_head_count",
             model.mla.has_value() ? fmt::format("{}", model.mla->index_head_count) : "",
             "has no sparse attention");
}

}  // namespace

RecomputeForm RecomputeFormOf(const Problem& problem, const ParallelPlan& plan) {
  return RecomputeFormOf(problem.model, problem.profile, plan);
}

std::optional<DataRanks> DataRanksOf(const ParallelPlan& plan) {
  if (plan.zero_stage == 0) return DataRanks{.replicas = plan.data_parallel};
  const int all = plan.data_parallel * plan.context_parallel;
  const int group = plan.zero_group_size > 0 ? plan.zero_group_size : all;
  const int shards = group / plan.context_parallel;
  if (group % plan.context_parallel != 0 || plan.data_parallel % shards != 0) return std::nullopt;
  return DataRanks{.replicas = plan.data_parallel / shards, .shards = shards};
}

void RefuseInexpressible(const Problem& problem, const ParallelPlan& plan,
                         const Expressible& expressible, Refusals& refusals) {
  FieldCheck check(expressible, refusals);
  CheckTensor(plan, expressible, check);
  CheckPipeline(problem, plan, expressible, check);
  CheckContextAndExperts(problem, plan, expressible, check);
  CheckSharding(plan, expressible, check);
  CheckRecompute(problem, plan, expressible, check);
  CheckWorkload(problem, plan, expressible, check);
  CheckExchange(problem, plan, expressible, check);
  CheckModel(problem.model, expressible, check);
}

}  // namespace meshwright

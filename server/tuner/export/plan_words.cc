#include "server/tuner/export/plan_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "estimator/legality/recompute_form.h"
#include "search_space/spec/choices.h"
#include "server/tuner/export/expressible.h"

namespace meshwright {
std::string ModelSizes(const ModelSpec& model) {
  std::string words =
      fmt::format("{} layers, hidden size {}", model.layer_count, model.hidden_size);
  if (model.ffn_hidden_size > 0) {
    words += fmt::format(", {} of {}", Word(model.mlp), model.ffn_hidden_size);
  }
  words += fmt::format(", {} heads", model.attention_head_count);
  if (model.mla.has_value()) {
    words +=
        fmt::format(" with latent attention of ranks {} and {} and head sizes {}, {} and {}",
                    model.mla->q_lora_rank, model.mla->kv_lora_rank, model.mla->qk_nope_head_dim,
                    model.mla->qk_rope_head_dim, model.mla->v_head_dim);
  } else {
    words += fmt::format(" of size {}, {} key-value heads", model.head_dim, model.kv_head_count);
  }
  if (model.moe.has_value()) {
    words += fmt::format(", {} experts of {} with {} per token", model.moe->expert_count,
                         model.moe->expert_ffn_hidden_size, model.moe->experts_per_token);
    if (model.moe->shared_expert_ffn_hidden_size > 0) {
      words += fmt::format(", shared experts of {}", model.moe->shared_expert_ffn_hidden_size);
    }
    if (model.moe->first_dense_layer_count > 0) {
      words +=
          fmt::format(", the first {} layers without experts", model.moe->first_dense_layer_count);
    }
  }
  return words + fmt::format(", {}, vocabulary of {}, {} embeddings", Word(model.norm),
                             model.vocab_size, model.tied_embeddings ? "tied" : "untied");
}

std::string RecomputedLayersText(const Problem& problem, const ParallelPlan& plan) {
  switch (RecomputeFormOf(problem, plan)) {
    case RecomputeForm::kNothing:
      return "nothing";
    case RecomputeForm::kEveryLayer:
      return "every layer";
    case RecomputeForm::kSelective:
    case RecomputeForm::kSomeLayers:
      break;
  }
  const auto& modules =
      plan.recompute.modules.empty() ? problem.profile.selective_modules : plan.recompute.modules;
  if (plan.recompute.granularity == RecomputeGranularity::kSelective &&
      plan.recompute.layer_counts.empty()) {
    return fmt::format("{} of every layer", fmt::join(modules, " and "));
  }
  const bool is_selective = plan.recompute.granularity == RecomputeGranularity::kSelective;
  std::string words =
      fmt::format("{}the first {} layers of the stages",
                  is_selective ? fmt::format("{} of ", fmt::join(modules, " and ")) : "",
                  fmt::join(plan.recompute.layer_counts, ", "));
  if (!plan.recompute.selective_layer_counts.empty()) {
    words += fmt::format(", and {} of the next {}", fmt::join(modules, " and "),
                         fmt::join(plan.recompute.selective_layer_counts, ", "));
  }
  return words;
}

}  // namespace meshwright

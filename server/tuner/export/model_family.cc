#include "server/tuner/export/model_family.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "search_space/spec/choices.h"
#include "search_space/spec/layer_list.h"

namespace meshwright {
namespace {

// Layers that are alike but for their window, in which one of each `interval` has none.
bool HasPlainLayers(const ModelSpec& model, int interval) {
  const std::vector<LayerRun> runs = RunsOf(model);
  LayerKind first = runs.front().kind;
  first.sliding_window = 0;
  const auto is_alike = [&](const LayerRun& run) {
    LayerKind kind = run.kind;
    kind.sliding_window = 0;
    return kind == first;
  };
  return std::ranges::all_of(runs, is_alike) && first.mixer == TokenMixer::kAttention &&
         !first.is_chunked && !first.values_are_keys && first.v_head_dim == first.head_dim &&
         !model.mla.has_value() && !model.attention_output_gate && !model.parallel_feed_forward &&
         !model.qk_norm_spans_heads && model.mtp_layer_count == 0 && model.position_count == 0 &&
         model.norm == NormKind::kRmsnorm && model.pre_norms &&
         FullAttentionInterval(model) == interval;
}

bool IsGemma(const ModelSpec& model) {
  return model.mlp == MlpKind::kGeglu && model.post_norms && model.tied_embeddings &&
         !model.moe.has_value() && !model.attention_sinks &&
         BiasesOf(model) == LinearBiases::kNone && !model.activation_clamp.has_value() &&
         model.glu_offset == 0;
}

bool IsGptOss(const ModelSpec& model) {
  constexpr int kInterval = 2;
  const bool has_experts = model.moe.has_value() && model.moe->first_dense_layer_count == 0 &&
                           model.moe->shared_expert_ffn_hidden_size == 0;
  return has_experts && model.mlp == MlpKind::kQuickGeglu && model.glu_offset == 1 &&
         model.activation_clamp.has_value() && model.attention_sinks && !model.post_norms &&
         !model.tied_embeddings && !model.qk_norm && !model.attention_soft_cap.has_value() &&
         !model.output_soft_cap.has_value() && BiasesOf(model) == LinearBiases::kAll &&
         HasPlainLayers(model, kInterval);
}

}  // namespace

ModelFamily FamilyOf(const ModelSpec& model) {
  constexpr int kOfGemma2 = 2;
  constexpr int kOfGemma3 = 6;
  const bool has_caps = model.attention_soft_cap.has_value() && model.output_soft_cap.has_value();
  const bool has_no_cap =
      !model.attention_soft_cap.has_value() && !model.output_soft_cap.has_value();
  if (IsGptOss(model)) return ModelFamily::kGptOss;
  if (!IsGemma(model)) return ModelFamily::kOther;
  if (has_caps && !model.qk_norm && HasPlainLayers(model, kOfGemma2)) return ModelFamily::kGemma2;
  if (has_no_cap && model.qk_norm && HasPlainLayers(model, kOfGemma3)) return ModelFamily::kGemma3;
  return ModelFamily::kOther;
}

int FullAttentionInterval(const ModelSpec& model) {
  std::vector<bool> has_window;
  for (const LayerRun& run : RunsOf(model)) {
    has_window.insert(has_window.end(), static_cast<std::size_t>(run.count),
                      run.kind.sliding_window > 0);
  }
  const auto first = std::ranges::find(has_window, false);
  const auto interval = (first - has_window.begin()) + 1;
  for (std::size_t i = 0; i < has_window.size(); ++i) {
    const bool is_last = (static_cast<std::ptrdiff_t>(i) + 1) % interval == 0;
    if (has_window[i] == is_last) return 0;
  }
  return static_cast<int>(interval);
}

}  // namespace meshwright

#include "search_space/import/shortcut_layers.h"

#include <fmt/format.h>

#include "search_space/spec/choices.h"

namespace meshwright {

void ReadShortcutLayers(ConfigReader& config, Layers& layers, ModelSpec& model) {
  const int idle = config.Integer({"zero_expert_num"}).value_or(0);
  if (idle == 0 || !model.moe.has_value()) return;
  const auto kind = config.Text({"zero_expert_type"});
  if (kind.value_or("identity") != "identity") {
    config.Reject("zero_expert_type", "must be identity, which computes nothing");
  }
  MoeSpec& moe = *model.moe;
  const int all = moe.expert_count + idle;
  const int computed = moe.experts_per_token * moe.expert_count;
  if (computed % all != 0) {
    config.Reject("zero_expert_num",
                  fmt::format("leaves {} x {} / {} experts for a token on average, which must be a "
                              "whole number",
                              moe.experts_per_token, moe.expert_count, all));
    return;
  }
  moe.experts_per_token = computed / all;
  Layers split;
  split.reserve(3 * layers.size());
  for (LayerKind layer : layers) {
    layer.feed_forward = FeedForwardKind::kDense;
    split.push_back(layer);
    split.push_back({.mixer = TokenMixer::kNone, .feed_forward = FeedForwardKind::kExperts});
    split.push_back(layer);
  }
  layers = split;
  model.layer_count = static_cast<int>(layers.size());
}

}  // namespace meshwright

#include "search_space/import/layer_runs.h"

#include <algorithm>
#include <cstddef>

#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Returns the shortest runs that repeat to all layers.
std::vector<LayerRun> ShortestRuns(const Layers& layers) {
  std::size_t period = 1;
  for (; period < layers.size(); ++period) {
    if (layers.size() % period != 0) continue;
    bool repeats = true;
    for (std::size_t i = period; repeats && i < layers.size(); ++i) {
      repeats = layers[i] == layers[i - period];
    }
    if (repeats) break;
  }
  std::vector<LayerRun> runs;
  for (std::size_t i = 0; i < period && i < layers.size(); ++i) {
    if (!runs.empty() && runs.back().kind == layers[i]) {
      ++runs.back().count;
    } else {
      runs.push_back({.count = 1, .kind = layers[i]});
    }
  }
  return runs;
}

}  // namespace

void SetLayers(const Layers& layers, ModelSpec& model) {
  const auto is_experts = [](const LayerKind& layer) {
    return layer.feed_forward == FeedForwardKind::kExperts;
  };
  const auto first = std::ranges::find_if(layers, is_experts);
  const bool is_leading = std::all_of(first, layers.end(), is_experts);
  const bool has_all = !model.moe.has_value() || first != layers.end();
  const auto is_plain = [&](LayerKind layer) {
    layer.feed_forward = FeedForwardKind::kDense;
    return layer == LayerKind{.sliding_window = layers.front().sliding_window};
  };
  if (is_leading && has_all && std::ranges::all_of(layers, is_plain)) {
    model.sliding_window = layers.front().sliding_window;
    if (model.moe.has_value()) {
      model.moe->first_dense_layer_count = static_cast<int>(first - layers.begin());
    }
    return;
  }
  model.layers = ShortestRuns(layers);
}

}  // namespace meshwright

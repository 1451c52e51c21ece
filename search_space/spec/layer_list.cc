#include "search_space/spec/layer_list.h"

#include <algorithm>

#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Returns the kind with the model's sizes in place of those that it does not state. Sizes that its
// mixer and feed-forward do not use are 0, so that kinds are equal if their layers are.
LayerKind Filled(LayerKind kind, const ModelSpec& model) {
  const auto fill = [](int& own, int whole) { own = own > 0 ? own : whole; };
  const bool attends =
      kind.mixer == TokenMixer::kAttention || kind.mixer == TokenMixer::kAttentionAndStateSpace;
  if (attends) {
    fill(kind.sliding_window, model.sliding_window);
    fill(kind.attention_head_count, model.attention_head_count);
    fill(kind.kv_head_count, model.kv_head_count);
    fill(kind.head_dim, model.head_dim);
    fill(kind.v_head_dim, kind.head_dim);
    if (kind.sliding_window == 0) kind.is_chunked = false;
  } else {
    kind.sliding_window = kind.attention_head_count = kind.kv_head_count = 0;
    kind.head_dim = kind.v_head_dim = 0;
    kind.is_chunked = kind.values_are_keys = false;
  }
  if (kind.feed_forward == FeedForwardKind::kDense) {
    fill(kind.ffn_hidden_size, model.ffn_hidden_size);
  } else {
    kind.ffn_hidden_size = 0;
  }
  return kind;
}

}  // namespace

std::vector<LayerRun> RunsOf(const ModelSpec& model) {
  std::vector<LayerRun> runs;
  int left = model.layer_count;
  const auto append = [&](int count, const LayerKind& kind) {
    count = std::min(count, left);
    if (count <= 0) return;
    left -= count;
    runs.push_back({.count = count, .kind = Filled(kind, model)});
  };
  if (model.layers.empty()) {
    if (!model.moe.has_value()) {
      append(left, {});
    } else {
      append(model.moe->first_dense_layer_count, {});
      append(left, {.feed_forward = FeedForwardKind::kExperts});
    }
    return runs;
  }
  for (int before = -1; left > 0 && left != before;) {
    before = left;
    for (const LayerRun& run : model.layers) append(run.count, run.kind);
  }
  return runs;
}

bool NeedsFfnSize(const ModelSpec& model) {
  if (model.layers.empty()) {
    return !model.moe.has_value() || model.moe->first_dense_layer_count > 0;
  }
  return std::ranges::any_of(model.layers, [](const LayerRun& run) {
    return run.kind.feed_forward == FeedForwardKind::kDense && run.kind.ffn_hidden_size == 0;
  });
}

bool HasUnconfirmedLayers(const ModelSpec& model) {
  const bool is_indexed = model.mla.has_value() && model.mla->index_head_count > 0;
  return is_indexed || std::ranges::any_of(model.layers, [](const LayerRun& run) {
           const TokenMixer mixer = run.kind.mixer;
           return mixer != TokenMixer::kAttention && mixer != TokenMixer::kNone;
         });
}

LayerList::LayerList(const ModelSpec& model) {
  before_.push_back({});
  int last = -1;
  for (const LayerRun& run : RunsOf(model)) {
    const auto found = std::ranges::find(kinds_, run.kind);
    const int index = static_cast<int>(found - kinds_.begin());
    if (found == kinds_.end()) kinds_.push_back(run.kind);
    is_in_order_ = is_in_order_ && index >= last;
    last = index;
    for (int i = 0; i < run.count; ++i) {
      indices_.push_back(index);
      LayerCounts counts = before_.back();
      ++counts[std::min(static_cast<std::size_t>(index), kMaxLayerKinds - 1)];
      before_.push_back(counts);
    }
  }
}

LayerCounts LayerList::Count(int first, int count) const {
  const int end = static_cast<int>(indices_.size());
  const LayerCounts& from = before_[static_cast<std::size_t>(std::clamp(first, 0, end))];
  LayerCounts counts = before_[static_cast<std::size_t>(std::clamp(first + count, 0, end))];
  for (std::size_t i = 0; i < kMaxLayerKinds; ++i) counts[i] -= from[i];
  return counts;
}

}  // namespace meshwright

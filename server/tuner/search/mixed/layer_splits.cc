#include "server/tuner/search/mixed/layer_splits.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/container/inlined_vector.h"
#include "estimator/pipeline/least_1f1b.h"
#include "estimator/pipeline/program.h"

namespace meshwright {
namespace {

constexpr std::size_t kFewStages = 32;

}  // namespace

LayerSplits::LayerSplits(const MixedPipeline& pipeline, Seconds useful, Table& table)
    : pipeline_(pipeline), rests_(table) {
  rests_.clear();
  const int p = pipeline.stages();
  const int layers = pipeline.layers();
  most_ = useful / pipeline.time_ratio() - pipeline.fixed();
  absl::InlinedVector<int, kFewStages> most;  // layers of each stage
  std::int64_t after = 0;                     // most layers of the stages from one on
  for (int stage = 0; stage < p; ++stage) {
    most.push_back(pipeline.MostLayers(stage, most_ / pipeline.micro_batches()));
    if (most.back() < 1) return;
    after += most.back();
  }
  if (after < layers) return;
  rests_.resize(static_cast<std::size_t>(p + 1) * static_cast<std::size_t>(layers + 1));
  rests_.back().is_possible = true;
  std::int64_t before = after;  // most layers of the stages before one
  after = 0;
  for (int stage = p; stage-- > 0;) {
    after += most[static_cast<std::size_t>(stage)];
    before -= most[static_cast<std::size_t>(stage)];
    const auto begin = static_cast<int>(std::max<std::int64_t>(stage, layers - after));
    const auto end =
        static_cast<int>(std::min<std::int64_t>(layers - (p - stage), stage == 0 ? 0 : before));
    for (int first = begin; first <= end; ++first) {
      rests_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(layers + 1) +
             static_cast<std::size_t>(first)] =
          FindRest(stage, first, most[static_cast<std::size_t>(stage)]);
    }
  }
}

const LayerSplits::Rest& LayerSplits::RestFrom(int stage, int first_layer) const {
  return rests_[static_cast<std::size_t>(stage) * static_cast<std::size_t>(pipeline_.layers() + 1) +
                static_cast<std::size_t>(first_layer)];
}

int LayerSplits::MostLayers(int stage, int first_layer) const {
  return pipeline_.layers() - first_layer - (pipeline_.stages() - 1 - stage);
}

Seconds LayerSplits::Around(int stage, const StagePrice& price, Seconds before,
                            Seconds behind) const {
  return LeastTimeAround({.work = {.forward = price.forward, .backward = price.backward},
                          .micro_batches = pipeline_.micro_batches(),
                          .stages_behind = pipeline_.stages() - 1 - stage,
                          .before = before,
                          .behind = behind});
}

Seconds LayerSplits::StepOf(Seconds bound, Seconds tail) const {
  return pipeline_.time_ratio() * (bound + tail + pipeline_.fixed());
}

// More layers take longer and need more memory, so the first number that is too large is the last.
LayerSplits::Rest LayerSplits::FindRest(int stage, int first_layer, int most_layers) const {
  Rest least;
  const Seconds hop = pipeline_.HopBehind(stage);
  const int left = MostLayers(stage, first_layer);
  const bool is_last = stage + 1 == pipeline_.stages();
  const int most = std::min(left, most_layers);
  for (int layers = is_last ? left : 1; layers <= most; ++layers) {
    const Rest& next = RestFrom(stage + 1, first_layer + layers);
    if (!next.is_possible) continue;
    const StagePrice price = pipeline_.PriceOf(stage, first_layer, layers);
    const Seconds work = price.forward + price.backward;
    if (!price.fits || pipeline_.micro_batches() * work > most_) break;
    if (price.is_late) continue;
    const Seconds own = Around(stage, price, Seconds(0), hop + next.sum);
    const Rest rest = {.sum = work + hop + next.sum,
                       .bound = std::max(own, work + hop + next.bound),
                       .tail = std::max(price.tail, next.tail),
                       .is_possible = true};
    if (!least.is_possible) {
      least = rest;
      continue;
    }
    least.sum = std::min(least.sum, rest.sum);
    least.bound = std::min(least.bound, rest.bound);
    least.tail = std::min(least.tail, rest.tail);
  }
  return least;
}

std::optional<Seconds> LayerSplits::Least() const {
  if (rests_.empty()) return std::nullopt;
  const Rest& all = RestFrom(0, 0);
  if (!all.is_possible) return std::nullopt;
  return StepOf(all.bound, all.tail);
}

std::vector<LayerSplits::Child> LayerSplits::ChildrenOf(const Node& node, Seconds useful) const {
  std::vector<Child> children;
  const Seconds hop = pipeline_.HopBehind(node.stage);
  const int most = MostLayers(node.stage, node.first_layer);
  const bool is_last = node.stage + 1 == pipeline_.stages();
  for (int layers = is_last ? most : 1; layers <= most; ++layers) {
    const Rest& next = RestFrom(node.stage + 1, node.first_layer + layers);
    if (!next.is_possible) continue;
    const StagePrice price = pipeline_.PriceOf(node.stage, node.first_layer, layers);
    const Seconds work = price.forward + price.backward;
    if (!price.fits || pipeline_.micro_batches() * work > most_) break;
    if (price.is_late) continue;
    Child child;
    child.own = {.layers = layers, .recomputed = price.recomputed};
    child.node.stage = node.stage + 1;
    child.node.first_layer = node.first_layer + layers;
    child.node.before = node.before + work + hop;
    child.node.bound = std::max(node.bound, Around(node.stage, price, node.before, hop + next.sum));
    child.node.tail = std::max(node.tail, price.tail);
    child.least = StepOf(std::max(child.node.bound, child.node.before + next.bound),
                         std::max(child.node.tail, next.tail));
    if (child.least < useful) children.push_back(child);
  }
  std::ranges::stable_sort(children, {}, &Child::least);
  return children;
}

// Returns the bound of a whole split, whose stages behind each other are known.
Seconds LayerSplits::BoundOf(const std::vector<StageLayers>& split) const {
  std::vector<StagePrice> prices;
  prices.reserve(split.size());
  int first_layer = 0;
  Seconds tail(0);
  Seconds behind(0);
  for (const StageLayers& own : split) {
    const auto stage = static_cast<int>(prices.size());
    prices.push_back(pipeline_.PriceOf(stage, first_layer, own.layers));
    first_layer += own.layers;
    tail = std::max(tail, prices.back().tail);
    behind += prices.back().forward + prices.back().backward + pipeline_.HopBehind(stage);
  }
  Seconds before(0);
  Seconds bound(0);
  for (std::size_t i = 0; i < prices.size(); ++i) {
    const auto stage = static_cast<int>(i);
    const Seconds work = prices[i].forward + prices[i].backward;
    behind -= work;
    bound = std::max(bound, Around(stage, prices[i], before, std::max(Seconds(0), behind)));
    behind -= pipeline_.HopBehind(stage);
    before += work + pipeline_.HopBehind(stage);
  }
  return StepOf(bound, tail);
}

void LayerSplits::Descend(const Node& node, std::vector<StageLayers>& split,
                          SplitSearch& search) const {
  if (node.stage == pipeline_.stages()) {
    if (BoundOf(split) < search.useful) search.visit(split);
    return;
  }
  for (const Child& child : ChildrenOf(node, search.useful)) {
    if (child.least >= search.useful) return;
    if (search.nodes_left <= 0) {
      search.least_left_out = std::min(search.least_left_out.value_or(child.least), child.least);
      return;
    }
    --search.nodes_left;
    split.push_back(child.own);
    Descend(child.node, split, search);
    split.pop_back();
  }
}

void LayerSplits::Search(SplitSearch& search) const {
  if (!Least().has_value()) return;
  std::vector<StageLayers> split;
  Descend({}, split, search);
}

}  // namespace meshwright

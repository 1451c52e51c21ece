#include "estimator/layer/layer_split.h"

#include <cstddef>

namespace meshwright {
namespace {

std::vector<int> Even(int layers, int stages) {
  std::vector<int> split(static_cast<std::size_t>(stages), layers / stages);
  for (int i = 0; i < layers % stages; ++i) ++split[static_cast<std::size_t>(i)];
  return split;
}

// Splits like nanotron's model builder, which puts blocks in order on the current stage; the stage
// ends when the running cost passes its share of the total (docs/cost_model/pipeline.md "Layer
// split").
std::vector<int> ByCost(const ModelSpec& model, int stages) {
  const double h = model.hidden_size;
  const double layer = 4 * h * h + 3 * h * model.ffn_hidden_size;
  const double head = static_cast<double>(model.vocab_size) * h;
  const double total = layer * model.layer_count + head;
  std::vector<int> split(static_cast<std::size_t>(stages), 0);
  double sum = 0;
  int stage = 0;
  for (int i = 0; i < model.layer_count; ++i) {
    ++split[static_cast<std::size_t>(stage)];
    sum += layer;
    if (sum > total * (stage + 1) / stages && stage + 1 < stages) ++stage;
  }
  return split;
}

}  // namespace

std::vector<int> SplitLayers(const ModelSpec& model, const FrameworkProfile& profile,
                             int stage_count) {
  if (profile.layer_split == LayerSplit::kByCost) return ByCost(model, stage_count);
  return Even(model.layer_count, stage_count);
}

std::vector<int> LayersPerStage(const ParallelPlan& plan, const ModelSpec& model,
                                const FrameworkProfile& profile) {
  if (!plan.layers_per_stage.empty()) return plan.layers_per_stage;
  const std::vector<StagePlan>& stages = FirstPipeline(plan);
  if (stages.empty()) return SplitLayers(model, profile, plan.pipeline_parallel);
  std::vector<int> layers;
  layers.reserve(stages.size());
  for (const StagePlan& stage : stages) layers.push_back(stage.layer_count);
  return layers;
}

ParallelPlan WithStatedSplit(ParallelPlan plan, const ModelSpec& model,
                             const FrameworkProfile& profile) {
  if (!StagesNamePools(plan)) plan.layers_per_stage = LayersPerStage(plan, model, profile);
  return plan;
}

DefaultSplits::DefaultSplits(const ModelSpec& model, const FrameworkProfile& profile)
    : model_(model), profile_(profile) {}

const std::vector<int>& DefaultSplits::For(int stage_count) {
  const auto index = static_cast<std::size_t>(stage_count);
  if (splits_.size() <= index) splits_.resize(index + 1);
  std::vector<int>& split = splits_[index];
  if (split.empty()) split = SplitLayers(model_, profile_, stage_count);
  return split;
}

}  // namespace meshwright

#include "estimator/model/stage_runs.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "estimator/layer/layer_split.h"
#include "estimator/model/data_parallel.h"
#include "estimator/model/replica_ring.h"
#include "estimator/model/stage_devices.h"
#include "estimator/model/unit_cost_cache.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/stage_places.h"

namespace meshwright {
namespace {

// Returns true if the stage recomputes as the one before, in every list of counts.
bool RecomputesAsBefore(const RecomputePlan& recompute, std::size_t index) {
  const auto repeats = [&](const std::vector<int>& counts) {
    return index >= counts.size() || counts[index] == counts[index - 1];
  };
  return repeats(recompute.layer_counts) && repeats(recompute.selective_layer_counts);
}

// Fills in what the layers of a stage recompute; `index` is its row in lists of counts.
void SetRecompute(const RecomputePlan& recompute, std::size_t index, Stage& stage) {
  const int layers = stage.layer_count;
  const auto at = [&](const std::vector<int>& counts, int most) {
    return std::min(counts[std::min(index, counts.size() - 1)], most);
  };
  stage.recomputed_layers = stage.selective_layers = stage.selective_mtp_layers = 0;
  switch (recompute.granularity) {
    case RecomputeGranularity::kNone:
      return;
    case RecomputeGranularity::kSelective:
      stage.selective_layers = layers;
      stage.selective_mtp_layers = stage.mtp_layers;
      return;
    case RecomputeGranularity::kFull:
      stage.recomputed_layers =
          recompute.layer_counts.empty() ? layers : at(recompute.layer_counts, layers);
      if (recompute.selective_layer_counts.empty()) return;
      stage.selective_layers =
          at(recompute.selective_layer_counts, layers - stage.recomputed_layers);
      return;
  }
}

// A folded stage has half of its layers from the front and half from the back of the model; the
// stages before it have `before` layers.
LayerCounts FoldedLayers(const LayerList& layers, int model_layers, int before, int count) {
  const int front = before / 2;
  const int half = count / 2;
  LayerCounts folded = layers.Count(front, half);
  const LayerCounts back = layers.Count(model_layers - front - half, half);
  for (std::size_t i = 0; i < kMaxLayerKinds; ++i) folded[i] += back[i];
  return folded;
}

}  // namespace

Stage MakeStage(const StagePlan& own, const StagePlace& place, const StageDevices& devices,
                const LayerList& layers, const ModelSpec& model) {
  Stage stage = {.devices = &devices,
                 .layers = layers.Count(place.first_layer, own.layer_count),
                 .layer_count = own.layer_count,
                 .order = layers.is_in_order() ? nullptr : &layers,
                 .first_layer = layers.is_in_order() ? 0 : place.first_layer,
                 .mtp_layers = place.is_last ? model.mtp_layer_count : 0,
                 .has_embedding = place.is_first,
                 .has_head = place.is_last};
  SetRecompute(own.recompute, 0, stage);
  stage.parameters = ParametersOf(stage, model);
  return stage;
}

StageRuns::StageRuns(const ParallelPlan& plan, const EstimatorProblem& problem,
                     UnitCostCache& costs, DefaultSplits& splits)
    : schedule_(plan.schedule),
      virtual_stages_(plan.virtual_pipeline),
      rank_order_(plan.rank_order),
      stages_name_pools_(!plan.stages.empty()) {
  if (stages_name_pools_) {
    AppendStagesWithPools(plan, plan, 0, problem, costs);
  } else {
    AppendStagesOfOnePool(
        plan, problem, costs,
        plan.layers_per_stage.empty() ? splits.For(plan.pipeline_parallel) : plan.layers_per_stage);
  }
  const StageDevices& front = devices_.front();
  micro_batches_ =
      problem.workload.global_batch_size / (front.data_parallel * front.sharding.micro_batch_size);
}

StageRuns::StageRuns(const ParallelPlan& plan, std::size_t group, const EstimatorProblem& problem,
                     UnitCostCache& costs)
    : schedule_(plan.schedule),
      virtual_stages_(plan.virtual_pipeline),
      rank_order_(plan.rank_order),
      stages_name_pools_(true),
      micro_batches_(plan.replica_groups[group].micro_batch_count) {
  AppendStagesWithPools(PlanOfReplica(plan, plan.replica_groups[group]), plan, group, problem,
                        costs);
}

const Stage& StageRuns::StageAt(int index) const {
  return std::find_if(runs_.begin(), runs_.end(),
                      [&](const StageRun& run) { return index < run.first + run.count; })
      ->stage;
}

// A stage whose devices are like those of the stage before shares them.
const StageDevices* StageRuns::Append(const StageDevices& devices) {
  if (devices_.empty() || devices_.back() != devices) devices_.push_back(devices);
  return &devices_.back();
}

void StageRuns::Append(const Stage& stage) {
  const int index = stage_count_++;
  if (!runs_.empty() && runs_.back().stage == stage) {
    ++runs_.back().count;
    return;
  }
  StageRun& run = runs_.emplace_back();
  run.stage = stage;
  run.first = index;
  run.count = 1;
}

// Appends the stages of a plan for one pool, which share their devices.
void StageRuns::AppendStagesOfOnePool(const ParallelPlan& plan, const EstimatorProblem& problem,
                                      UnitCostCache& costs, std::span<const int> layers) {
  const auto p = static_cast<std::size_t>(plan.pipeline_parallel);
  StageDevices& devices = devices_.emplace_back(BareDevices(plan, problem));
  const PipelineLayout layout = LayoutOf(plan.schedule, plan.pipeline_parallel, 1);
  devices.directions = layout.directions();
  devices.unit = &costs.CostsOf(devices.sharding, *devices.pool, plan.recompute);
  devices.states = StateShardingOf(plan, devices);
  Stage stage = {.devices = &devices};
  const bool is_folded = layout.IsFolded();
  const LayerList& list = costs.layers();
  const bool alternates = !is_folded && !list.is_in_order();
  if (alternates) stage.order = &list;
  int first_layer = 0;
  for (std::size_t i = 0; i < p; ++i) {
    const LayerCounts kinds =
        is_folded ? FoldedLayers(list, problem.model.layer_count, first_layer, layers[i])
                  : list.Count(first_layer, layers[i]);
    if (alternates) stage.first_layer = first_layer;
    first_layer += layers[i];
    // Most stages are like the one before, which shows in what they are made from.
    if (i > 1 && i + 1 < p && layers[i] == layers[i - 1] && kinds == stage.layers && !alternates &&
        RecomputesAsBefore(plan.recompute, i)) {
      ++runs_.back().count;
      ++stage_count_;
      continue;
    }
    stage.layers = kinds;
    stage.layer_count = layers[i];
    stage.has_embedding = i == 0;
    stage.has_head = i == (is_folded ? 0 : p - 1);
    stage.mtp_layers = stage.has_head ? problem.model.mtp_layer_count : 0;
    SetRecompute(plan.recompute, i, stage);
    stage.offloaded_layers = OffloadedLayers(plan.activation_offload_ratio, layers[i]);
    stage.whole_layers = WholeLayers(plan.whole_weights_ratio, layers[i]);
    stage.parameters = ParametersOf(stage, problem.model);
    Append(stage);
  }
}

// Appends stages that each name their pool, degrees and recomputation.
void StageRuns::AppendStagesWithPools(const ParallelPlan& plan, const ParallelPlan& whole,
                                      std::size_t group, const EstimatorProblem& problem,
                                      UnitCostCache& costs) {
  devices_.reserve(plan.stages.size());  // stages point to them
  const bool shares_nodes = std::ranges::any_of(
      plan.stages, [](const StagePlan& stage) { return stage.device_count > 0; });
  std::vector<std::optional<int>> nodes;
  if (shares_nodes) nodes = PlaceStages(whole, problem.cluster).shared_nodes[group];
  std::vector<ReplicaRing> rings;
  if (!whole.replica_groups.empty()) rings = RingsOf(whole, group, problem);
  int first_layer = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& own = plan.stages[i];
    StageDevices devices = BareDevices(plan, own, problem);
    devices.unit = &costs.CostsOf(devices.sharding, *devices.pool, own.recompute);
    if (shares_nodes) devices.shared_node = nodes[i];
    if (!rings.empty()) devices.ring = rings[i];
    devices.states = StateShardingOf(plan, devices);
    const StagePlace place = {
        .first_layer = first_layer, .is_first = i == 0, .is_last = i + 1 == plan.stages.size()};
    Stage stage = MakeStage(own, place, *Append(devices), costs.layers(), problem.model);
    stage.offloaded_layers = OffloadedLayers(plan.activation_offload_ratio, own.layer_count);
    stage.whole_layers = WholeLayers(plan.whole_weights_ratio, own.layer_count);
    Append(stage);
    first_layer += own.layer_count;
  }
}

}  // namespace meshwright

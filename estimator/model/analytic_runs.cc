// The stages of a plan, and the messages between them.
#include <algorithm>

#include "estimator/layer/layer_split.h"
#include "estimator/layer/parameters.h"
#include "estimator/model/analytic_model.h"
#include "estimator/model/data_parallel.h"
#include "estimator/model/stage.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/chip.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

// Of an order that makes no difference, that of the default.
StageBlocks BlocksOf(const ParallelPlan& plan, const NodePool& pool) {
  const bool differs = plan.rank_order == RankOrder::kTpCpEpPpDp && plan.stages.empty() &&
                       plan.data_parallel > 1 && ScaleUpDeviceCount(pool) < DeviceCount(pool);
  return {.devices = plan.tensor_parallel * plan.context_parallel,
          .stride = differs ? plan.pipeline_parallel : 1};
}

// Where expert parallelism lies when it does not lie as under the default order.
std::optional<GroupShape> SpreadExperts(const ParallelPlan& plan, const StageBlocks& blocks,
                                        int scale_up_devices) {
  if (blocks.stride == 1) return std::nullopt;
  const int ranks = plan.expert_parallel;
  const int stride = plan.expert_tensor_parallel;
  const GroupShape shape = PlaceInStage(ranks, stride, blocks, scale_up_devices);
  if (shape == PlaceGroup(ranks, stride, scale_up_devices)) return std::nullopt;
  return shape;
}

// The pipeline is part of a layer's sharding only where the framework's costs depend on it: plans
// that differ in its depth share their unit costs.
LayerSharding ShardingOf(const ParallelPlan& plan, const EstimatorProblem& problem) {
  const FrameworkProfile& profile = problem.profile;
  const bool is_pipelined = plan.pipeline_parallel > 1 || plan.stages.size() > 1;
  const bool contends = profile.host_per_collective_rank_with_pipeline > Seconds(0) ||
                        profile.collective_latency_per_node > Seconds(0);
  const bool has_nodes =
      problem.cluster.pools.size() > 1 || problem.cluster.pools.front().node_count > 1;
  const NodePool& pool = problem.cluster.pools.front();
  const StageBlocks blocks = BlocksOf(plan, pool);
  const int scale_up_devices = ScaleUpDeviceCount(pool);
  return {.tensor_parallel = plan.tensor_parallel,
          .sequence_parallel = plan.sequence_parallel,
          .context_parallel = plan.context_parallel,
          .context_parallel_kind = plan.context_parallel_kind,
          .expert_parallel = plan.expert_parallel,
          .expert_tensor_parallel = plan.expert_tensor_parallel,
          .expert_group = SpreadExperts(plan, blocks, scale_up_devices),
          .micro_batch_size = plan.micro_batch_size,
          .is_pipelined = is_pipelined && profile.keeps_gathered_input_without_pipeline,
          .pipeline_leaves_node = is_pipelined && has_nodes && contends &&
                                  !PipelineStaysInNode(blocks, scale_up_devices)};
}

void SplitContext(const ModelSpec& model, const NodePool& pool, LayerSharding& sharding) {
  if (sharding.context_parallel_kind != ContextParallelKind::kHybrid) return;
  sharding.hybrid_exchange_ranks = HybridExchangeRanks(
      sharding.context_parallel, sharding.tensor_parallel,
      ExchangedHeads(model, sharding.tensor_parallel), ScaleUpDeviceCount(pool));
}

// Between how many ranks each gradient is divided where a kernel of its own adds it up.
void ShardGradients(const ParallelPlan& plan, int data_parallel, const FrameworkProfile& profile,
                    LayerSharding& sharding) {
  if (plan.zero_stage < 2 || profile.gradient_accumulation_is_fused) return;
  const StateSharding states =
      meshwright::ShardingOf(plan, {.sharding = sharding, .data_parallel = data_parallel});
  sharding.gradient_shards = states.dense_group;
  sharding.expert_gradient_shards = states.expert_group;
}

// Whether the row of a stage is as that of the stage before, in every list of counts.
bool RecomputesAsBefore(const RecomputePlan& recompute, std::size_t index) {
  const auto repeats = [&](const std::vector<int>& counts) {
    return index >= counts.size() || counts[index] == counts[index - 1];
  };
  return repeats(recompute.layer_counts) && repeats(recompute.selective_layer_counts);
}

// Fills in what the layers of a stage recompute; `index` is its row in lists of counts.
void SetRecompute(const RecomputePlan& recompute, std::size_t index, Stage& stage) {
  const int layers = stage.dense_layers + stage.moe_layers;
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
// stages before have `before` layers.
int FoldedDenseLayers(const ModelSpec& model, int before, int count) {
  const int front = before / 2;
  const int half = count / 2;
  return DenseLayerCount(model, front, half) +
         DenseLayerCount(model, model.layer_count - front - half, half);
}

}  // namespace

const std::vector<int>& AnalyticModel::DefaultSplit(int stage_count) {
  const auto index = static_cast<std::size_t>(stage_count);
  if (splits_.size() <= index) splits_.resize(index + 1);
  std::vector<int>& split = splits_[index];
  if (split.empty()) split = SplitLayers(problem_.model, problem_.profile, stage_count);
  return split;
}

// A stage whose devices are as those of the stage before has the same.
const StageDevices* AnalyticModel::Append(const StageDevices& devices) {
  if (devices_.empty() || devices_.back() != devices) devices_.push_back(devices);
  return &devices_.back();
}

void AnalyticModel::Append(const Stage& stage) {
  if (!runs_.empty() && runs_.back().stage == stage) {
    ++runs_.back().count;
    return;
  }
  const int first = runs_.empty() ? 0 : runs_.back().first + runs_.back().count;
  runs_.push_back({.stage = stage, .first = first, .count = 1});
}

// Those of a plan for one pool, without their costs and states.
StageDevices AnalyticModel::BareDevices(const ParallelPlan& plan) const {
  const NodePool& pool = problem_.cluster.pools.front();
  LayerSharding sharding = ShardingOf(plan, problem_);
  SplitContext(problem_.model, pool, sharding);
  ShardGradients(plan, plan.data_parallel, problem_.profile, sharding);
  return {.pool = &pool,
          .sharding = sharding,
          .data_parallel = plan.data_parallel,
          .block_stride = BlocksOf(plan, pool).stride};
}

void AnalyticModel::BuildRuns(const ParallelPlan& plan) {
  runs_.clear();
  devices_.clear();
  if (!plan.stages.empty()) return BuildMixedRuns(plan);
  const auto p = static_cast<std::size_t>(plan.pipeline_parallel);
  const std::vector<int>& layers =
      plan.layers_per_stage.empty() ? DefaultSplit(plan.pipeline_parallel) : plan.layers_per_stage;
  StageDevices& devices = devices_.emplace_back(BareDevices(plan));
  const PipelineLayout layout = LayoutOf(plan.schedule, plan.pipeline_parallel, 1);
  devices.directions = layout.directions();
  devices.unit = &UnitsOf(devices.sharding, 0, SelectiveModules(plan.recompute));
  devices.states = meshwright::ShardingOf(plan, devices);
  Stage stage = {.devices = &devices};
  const bool is_folded = layout.IsFolded();
  int first_layer = 0;
  for (std::size_t i = 0; i < p; ++i) {
    const int dense = is_folded ? FoldedDenseLayers(problem_.model, first_layer, layers[i])
                                : DenseLayerCount(problem_.model, first_layer, layers[i]);
    first_layer += layers[i];
    // Most stages are as the one before, which shows in what they are made from.
    if (i > 1 && i + 1 < p && layers[i] == layers[i - 1] && dense == stage.dense_layers &&
        RecomputesAsBefore(plan.recompute, i)) {
      ++runs_.back().count;
      continue;
    }
    stage.dense_layers = dense;
    stage.moe_layers = layers[i] - dense;
    stage.has_embedding = i == 0;
    stage.has_head = i == (is_folded ? 0 : p - 1);
    stage.mtp_layers = stage.has_head ? problem_.model.mtp_layer_count : 0;
    SetRecompute(plan.recompute, i, stage);
    stage.offloaded_layers = OffloadedLayers(plan.activation_offload_ratio, layers[i]);
    stage.whole_layers = WholeLayers(plan.whole_weights_ratio, layers[i]);
    stage.parameters = ParametersOf(stage, problem_.model);
    Append(stage);
  }
}

// Stages that each name their pool, degrees and recomputation.
void AnalyticModel::BuildMixedRuns(const ParallelPlan& plan) {
  devices_.reserve(plan.stages.size());  // runs_ point to them
  int first_layer = 0;
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const StagePlan& own = plan.stages[i];
    LayerSharding sharding = ShardingOf(plan, problem_);
    sharding.tensor_parallel = own.tensor_parallel;
    sharding.sequence_parallel = plan.sequence_parallel && own.tensor_parallel > 1;
    sharding.context_parallel = own.context_parallel;
    sharding.micro_batch_size = own.micro_batch_size;
    int pool = 0;
    for (std::size_t k = 0; k < problem_.cluster.pools.size(); ++k) {
      if (problem_.cluster.pools[k].name == own.pool) pool = static_cast<int>(k);
    }
    SplitContext(problem_.model, problem_.cluster.pools[static_cast<std::size_t>(pool)], sharding);
    ShardGradients(plan, own.data_parallel, problem_.profile, sharding);
    StageDevices devices = {.pool = &problem_.cluster.pools[static_cast<std::size_t>(pool)],
                            .unit = &UnitsOf(sharding, pool, SelectiveModules(own.recompute)),
                            .sharding = sharding,
                            .data_parallel = own.data_parallel};
    devices.states = meshwright::ShardingOf(plan, devices);
    const int dense = DenseLayerCount(problem_.model, first_layer, own.layer_count);
    const bool is_last = i + 1 == plan.stages.size();
    Stage stage = {
        .devices = Append(devices),
        .dense_layers = dense,
        .moe_layers = own.layer_count - dense,
        .mtp_layers = is_last ? problem_.model.mtp_layer_count : 0,
        .has_embedding = i == 0,
        .has_head = is_last,
        .offloaded_layers = OffloadedLayers(plan.activation_offload_ratio, own.layer_count),
        .whole_layers = WholeLayers(plan.whole_weights_ratio, own.layer_count)};
    SetRecompute(own.recompute, 0, stage);
    stage.parameters = ParametersOf(stage, problem_.model);
    Append(stage);
    first_layer += own.layer_count;
  }
}

// Ranks between which a stage's message is split: without sequence parallelism every
// tensor-parallel rank holds all of it, and sends all of it unless the framework splits it.
int AnalyticModel::MessageShards(const StageDevices& from) const {
  const bool splits = problem_.profile.pipeline_sends_shards && !from.sharding.sequence_parallel;
  return splits ? from.sharding.tensor_parallel : 1;
}

// Puts a message that came in shards together again on every rank of `to`.
Seconds AnalyticModel::GatherShards(Bytes whole, int shards, const StageDevices& to) const {
  if (shards == 1) return Seconds(0);
  return CollectiveTime(CollectiveKind::kAllGather, whole,
                        PlaceGroup(shards, 1, ScaleUpDeviceCount(*to.pool)), *to.pool,
                        problem_.cluster.topology);
}

// A stage's activation to its neighbour on devices of the same kind, or its gradient back.
Seconds AnalyticModel::MessageTime(const StageDevices& from, bool is_mixed) const {
  // Stages of a mixed plan are whole nodes; else one node may hold several.
  const int scale_up_devices = ScaleUpDeviceCount(*from.pool);
  const bool leaves_node = (is_mixed || from.pool->node_count > 1) &&
                           scale_up_devices < DeviceCount(*from.pool) &&
                           !PipelineStaysInNode(BlocksOf(from), scale_up_devices);
  const int shards = MessageShards(from);
  const Bytes whole = from.unit->boundary;
  return PointToPointTime(Scale(whole, 1.0 / shards), leaves_node, *from.pool,
                          problem_.cluster.topology) +
         GatherShards(whole, shards, from);
}

Seconds AnalyticModel::InterPoolMessageTime(const StageDevices& from,
                                            const StageDevices& to) const {
  const int shards = MessageShards(from);
  const Bytes whole = from.unit->boundary;
  return InterPoolTime(Scale(whole, 1.0 / shards), from.pool->devices_per_node,
                       problem_.cluster.inter_pool) +
         GatherShards(whole, std::min(shards, to.sharding.tensor_parallel), to);
}

Seconds AnalyticModel::SlowestMessage(const ParallelPlan& plan) const {
  Seconds slowest(0);
  const StageDevices* last = nullptr;  // whose messages were timed
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const StageDevices& from = *runs_[i].stage.devices;
    const bool is_last = i + 1 == runs_.size();
    if (!is_last && runs_[i + 1].stage.devices->pool != from.pool) {
      slowest = std::max(slowest, InterPoolMessageTime(from, *runs_[i + 1].stage.devices));
    }
    if (last == &from || (is_last && runs_[i].count == 1)) continue;
    slowest = std::max(slowest, MessageTime(from, !plan.stages.empty()));
    last = &from;
  }
  return slowest;
}

}  // namespace meshwright

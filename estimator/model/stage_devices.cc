#include "estimator/model/stage_devices.h"

#include <optional>

#include "estimator/model/data_parallel.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"

namespace meshwright {
namespace {

// An order of ranks that makes no difference counts as the default one.
StageBlocks BlocksOf(const ParallelPlan& plan, const NodePool& pool) {
  const bool differs = plan.rank_order == RankOrder::kTpCpEpPpDp && plan.stages.empty() &&
                       plan.data_parallel > 1 && ScaleUpDeviceCount(pool) < DeviceCount(pool);
  return {.devices = plan.tensor_parallel * plan.context_parallel,
          .stride = differs ? plan.pipeline_parallel : 1};
}

// Returns where the ranks of expert parallelism lie unless they lie as under the default order.
std::optional<GroupShape> SpreadExperts(const ParallelPlan& plan, const StageBlocks& blocks,
                                        int scale_up_devices) {
  if (blocks.stride == 1) return std::nullopt;
  const int ranks = plan.expert_parallel;
  const int stride = plan.expert_tensor_parallel;
  const GroupShape shape = PlaceInStage(ranks, stride, blocks, scale_up_devices);
  if (shape == PlaceGroup(ranks, stride, scale_up_devices)) return std::nullopt;
  return shape;
}

// Returns true if two micro-batches are in their passes side by side: with virtual stages, if there
// is a pipeline (--overlap-moe-expert-parallel-comm, megatron/training/arguments.py), and where a
// schedule pairs a forward with a backward pass (DeepSeek-V3, arXiv 2412.19437, 3.2.1).
bool PairsPasses(const ParallelPlan& plan) {
  return plan.pipeline_parallel == 1 || plan.virtual_pipeline > 1 ||
         plan.schedule == Schedule::kDualpipe || plan.schedule == Schedule::kDualpipeV;
}

// Returns true if messages to experts run behind the computation of another micro-batch.
bool HidesExchange(const ParallelPlan& plan, const EstimatorProblem& problem) {
  return problem.workload.overlap.expert_parallel && plan.expert_parallel > 1 &&
         problem.workload.moe.dispatcher != MoeDispatcher::kAllgather && PairsPasses(plan) &&
         plan.recompute.granularity != RecomputeGranularity::kFull;
}

// The pipeline is part of a layer's sharding only if the framework's costs depend on it: plans that
// differ in its depth share their unit costs.
LayerSharding ShardingOf(const ParallelPlan& plan, const StageBlocks& blocks,
                         const EstimatorProblem& problem) {
  const FrameworkProfile& profile = problem.profile;
  const bool is_pipelined = plan.pipeline_parallel > 1 || plan.stages.size() > 1;
  const bool contends = profile.host_per_collective_rank_with_pipeline > Seconds(0) ||
                        profile.collective_latency_per_node > Seconds(0);
  const bool has_nodes =
      problem.cluster.pools.size() > 1 || problem.cluster.pools.front().node_count > 1;
  const int scale_up_devices = ScaleUpDeviceCount(problem.cluster.pools.front());
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
                                  !PipelineStaysInNode(blocks, scale_up_devices),
          .hides_exchange = HidesExchange(plan, problem)};
}

void SplitContext(const ModelSpec& model, const NodePool& pool, LayerSharding& sharding) {
  if (sharding.context_parallel_kind != ContextParallelKind::kHybrid) return;
  sharding.hybrid_exchange_ranks = HybridExchangeRanks(
      sharding.context_parallel, sharding.tensor_parallel,
      ExchangedHeads(model, sharding.tensor_parallel), ScaleUpDeviceCount(pool));
}

// Sets the number of ranks that divide each gradient if a kernel of its own adds it up.
void ShardGradients(const ParallelPlan& plan, int data_parallel, const FrameworkProfile& profile,
                    LayerSharding& sharding) {
  if (plan.zero_stage < 2 || profile.gradient_accumulation_is_fused) return;
  const StateSharding states =
      StateShardingOf(plan, {.sharding = sharding, .data_parallel = data_parallel});
  sharding.gradient_shards = states.dense_group;
  sharding.expert_gradient_shards = states.expert_group;
}

}  // namespace

StageDevices BareDevices(const ParallelPlan& plan, const EstimatorProblem& problem) {
  const NodePool& pool = problem.cluster.pools.front();
  const StageBlocks blocks = BlocksOf(plan, pool);
  StageDevices devices = {.pool = &pool,
                          .sharding = ShardingOf(plan, blocks, problem),
                          .data_parallel = plan.data_parallel,
                          .block_stride = blocks.stride};
  SplitContext(problem.model, pool, devices.sharding);
  ShardGradients(plan, plan.data_parallel, problem.profile, devices.sharding);
  return devices;
}

StageDevices BareDevices(const ParallelPlan& plan, const StagePlan& stage,
                         const EstimatorProblem& problem) {
  const NodePool* pool = &problem.cluster.pools.front();
  for (const NodePool& named : problem.cluster.pools) {
    if (named.name == stage.pool) pool = &named;
  }
  const StageBlocks blocks = BlocksOf(plan, problem.cluster.pools.front());
  StageDevices devices = {.pool = pool,
                          .sharding = ShardingOf(plan, blocks, problem),
                          .data_parallel = stage.data_parallel};
  LayerSharding& sharding = devices.sharding;
  sharding.tensor_parallel = stage.tensor_parallel;
  sharding.sequence_parallel = plan.sequence_parallel && stage.tensor_parallel > 1;
  sharding.context_parallel = stage.context_parallel;
  sharding.micro_batch_size = stage.micro_batch_size;
  SplitContext(problem.model, *pool, sharding);
  ShardGradients(plan, stage.data_parallel, problem.profile, sharding);
  return devices;
}

}  // namespace meshwright

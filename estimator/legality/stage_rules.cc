#include <algorithm>
#include <cstddef>
#include <set>
#include <span>
#include <string_view>
#include <tuple>

#include "estimator/legality/rule_tables.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {
namespace {

constexpr std::string_view kEqualRanks =
    "megatron-core megatron-lm mindspeed megatron-deepspeed deepspeed torchtitan "
    "nanotron paddle";

constexpr std::string_view kUnreadAboutReplicas =
    "aleph-alpha-scaling internevo jax maxtext pytorch-fsdp train-step";

// Returns true if a figure differs between two stages.
template <typename Figure>
bool Differs(const ParallelPlan& plan, const Figure& figure) {
  return std::ranges::any_of(plan.stages, [&](const StagePlan& stage) {
    return figure(stage) != figure(plan.stages.front());
  });
}

bool HasOwnDegrees(const EstimatorProblem&, const ParallelPlan& plan) {
  return Differs(plan, [](const StagePlan& stage) { return stage.tensor_parallel; }) ||
         Differs(plan, [](const StagePlan& stage) { return stage.context_parallel; }) ||
         Differs(plan, [](const StagePlan& stage) { return stage.data_parallel; });
}

bool HasOwnRecompute(const EstimatorProblem&, const ParallelPlan& plan) {
  return Differs(plan, [](const StagePlan& stage) { return stage.recompute; });
}

bool ReturnsToAPool(const EstimatorProblem&, const ParallelPlan& plan) {
  std::set<std::string_view> left;
  for (std::size_t i = 1; i < plan.stages.size(); ++i) {
    if (plan.stages[i].pool == plan.stages[i - 1].pool) continue;
    left.insert(plan.stages[i - 1].pool);
    if (left.contains(plan.stages[i].pool)) return true;
  }
  return false;
}

bool SplitsContextOfStages(const EstimatorProblem&, const ParallelPlan& plan) {
  return std::ranges::any_of(plan.stages,
                             [](const StagePlan& stage) { return stage.context_parallel > 1; });
}

bool HasChunksOfStages(const EstimatorProblem&, const ParallelPlan& plan) {
  return plan.virtual_pipeline > 1;
}

bool HasOwnTensorWithoutSequence(const EstimatorProblem&, const ParallelPlan& plan) {
  const bool differs = Differs(plan, [](const StagePlan& stage) { return stage.tensor_parallel; });
  const bool has_one = std::ranges::any_of(
      plan.stages, [](const StagePlan& stage) { return stage.tensor_parallel == 1; });
  return differs && (!plan.sequence_parallel || has_one);
}

bool MixesKindsOfRecompute(const EstimatorProblem&, const ParallelPlan& plan) {
  const auto is_selective = [](const StagePlan& stage) {
    return stage.recompute.granularity == RecomputeGranularity::kSelective;
  };
  return std::ranges::any_of(plan.stages, is_selective) &&
         !std::ranges::all_of(plan.stages, is_selective);
}

bool HasTiedStatesThatDoNotDivide(const EstimatorProblem& problem, const ParallelPlan& plan) {
  if (!problem.model.tied_embeddings || plan.zero_stage == 0 || plan.stages.empty()) return false;
  const int first = plan.stages.front().data_parallel;
  const int last = plan.stages.back().data_parallel;
  return first % last != 0 && last % first != 0;
}

bool HasReplicaGroups(const EstimatorProblem&, const ParallelPlan& plan) {
  return !plan.replica_groups.empty();
}

// Returns true if replicas differ in more than their chips and their micro-batch sizes, or stages
// in their layers.
bool HasReplicasOfOwnShape(const EstimatorProblem&, const ParallelPlan& plan) {
  if (plan.replica_groups.empty()) return false;
  const ReplicaGroup& first = plan.replica_groups.front();
  const int layers = first.stages.front().layer_count;
  const auto is_like = [&](const StagePlan& a, const StagePlan& b) {
    return std::tie(a.tensor_parallel, a.context_parallel, a.layer_count, a.recompute) ==
           std::tie(b.tensor_parallel, b.context_parallel, layers, b.recompute);
  };
  return std::ranges::any_of(plan.replica_groups, [&](const ReplicaGroup& group) {
    return group.micro_batch_count != first.micro_batch_count ||
           !std::ranges::equal(group.stages, first.stages, is_like);
  });
}

constexpr LegalityRule kRules[] = {
    {.frameworks = kEqualRanks,
     .decided_by = Dimension::kMicroBatchSize,
     .field = "replica_groups",
     .sentence = "all replicas have one shape and run as many micro-batches of one size",
     .source =
         "megatron/core/num_microbatches_calculator.py: micro_batch_size x data_parallel_size "
         "divides the batch; the other frameworks have one size too",
     .is_broken = &HasReplicaGroups,
     .is_for_stages = true},
    {.frameworks = "flagscale",
     .versions = {.since = "0.6"},
     .decided_by = Dimension::kMicroBatchSize,
     .field = "replica_groups",
     .sentence = "a mesh is a range of the pipeline, so that replicas of a stage are alike; only "
                 "version 0.3 ran unequal replicas (--hetero-mode dp)",
     .source =
         "flagscale/train/arguments.py: hetero_process_meshes (read in 2025; versions before 0.6 "
         "were not read)",
     .is_broken = &HasReplicaGroups,
     .is_for_stages = true},
    {.frameworks = kUnreadAboutReplicas,
     .decided_by = Dimension::kMicroBatchSize,
     .field = "replica_groups",
     .sentence = "nothing that was read of it says that it runs replicas that differ",
     .source = "the sources of its profile, which name one micro-batch size for all ranks or none",
     .is_broken = &HasReplicaGroups,
     .is_caution = true,
     .is_for_stages = true},
    {.frameworks = "flagscale",
     .versions = {.before = "0.6"},
     .decided_by = Dimension::kMicroBatchSize,
     .field = "replica_groups",
     .sentence =
         "replicas differ in their chips and their micro-batch sizes only: all have the same "
         "parallelism, layers and recomputation, and run as many micro-batches",
     .source =
         "FlagScale 0.3, README: --hetero-mode dp, --hetero-micro-batch-sizes; "
         "megatron/training/training.py: the batch is get_num_microbatches() x the sum of "
         "hetero_micro_batch_sizes x hetero_data_parallel_splits; Megatron-LM, transformer.py: "
         "num_layers must be divisible by transformer_pipeline_model_parallel_size",
     .is_broken = &HasReplicasOfOwnShape,
     .is_for_stages = true},
    {.frameworks = kEqualRanks,
     .decided_by = Dimension::kTensorParallel,
     .field = "stages",
     .sentence = "all ranks have one size of tensor, context and data parallelism",
     .source = "megatron/core/parallel_state.py: initialize_model_parallel; ParallelDims of "
               "torchtitan, ParallelContext of nanotron, hybrid_configs of paddle fleet, "
               "PipeModelDataParallelTopology of deepspeed",
     .is_broken = &HasOwnDegrees,
     .is_for_stages = true},
    {.frameworks = kEqualRanks,
     .decided_by = Dimension::kRecompute,
     .field = "stages",
     .sentence = "all stages recompute alike",
     .source = "megatron/training/arguments.py: --recompute-granularity, --recompute-num-layers; "
               "the other frameworks have one setting too",
     .is_broken = &HasOwnRecompute,
     .is_for_stages = true},
    {.frameworks = "flagscale",
     .decided_by = Dimension::kPipelineParallel,
     .field = "stages",
     .sentence = "the stages of a type of device follow one another: ranks are sorted by the first "
                 "place of their type",
     .source = "flagscale/train/arguments.py: hetero_device_types",
     .is_broken = &ReturnsToAPool,
     .is_for_stages = true},
    {.frameworks = "flagscale",
     .decided_by = Dimension::kContextParallel,
     .field = "stages",
     .sentence = "meshes of several types have no context parallelism",
     .source =
         "flagscale/train/hetero/parallel_context.py: context parallelism is asserted to be 1",
     .is_broken = &SplitsContextOfStages,
     .is_for_stages = true},
    {.frameworks = "flagscale",
     .decided_by = Dimension::kVirtualPipeline,
     .field = "virtual_pipeline",
     .sentence = "meshes of several types have no virtual stages",
     .source = "flagscale/train/arguments.py: virtual pipeline is not supported with hetero meshes",
     .is_broken = &HasChunksOfStages,
     .is_for_stages = true},
    {.frameworks = "flagscale",
     .decided_by = Dimension::kSequenceParallel,
     .field = "stages",
     .sentence = "meshes of unequal tensor parallelism need sequence parallelism, which a mesh "
                 "without tensor parallelism has not",
     .source = "flagscale/train/arguments.py, flagscale/train/hetero/p2p_communication.py",
     .is_broken = &HasOwnTensorWithoutSequence,
     .is_for_stages = true},
    {.frameworks = "flagscale",
     .decided_by = Dimension::kRecompute,
     .field = "stages",
     .sentence = "recomputation of single stages has granularity full",
     .source = "FlagScale: --recompute-granularity-per-stage-micro-batch",
     .is_broken = &MixesKindsOfRecompute,
     .is_for_stages = true},
    {.frameworks = "flagscale",
     .decided_by = Dimension::kZeroStage,
     .field = "stages",
     .sentence = "with tied embeddings and a distributed optimizer, data parallelism of the first "
                 "and the last stage must divide one another",
     .source = "flagscale/train/arguments.py: use_partial_reduce_for_shared_embedding",
     .is_broken = &HasTiedStatesThatDoNotDivide,
     .is_for_stages = true},
};

}  // namespace

std::span<const LegalityRule> StageRules() { return kRules; }

}  // namespace meshwright

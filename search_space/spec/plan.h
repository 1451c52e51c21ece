#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The activations that are discarded in the forward pass and recomputed in the backward pass.
struct RecomputePlan {
  RecomputeGranularity granularity = RecomputeGranularity::kNone;
  std::vector<int> layer_counts = {};  // recomputed layers per stage; empty: every layer
  // The parts that a selectively recomputed layer recomputes; empty: the framework profile's
  // default.
  std::vector<std::string> modules = {};
  // Under kFull with layer_counts: the number of further layers of each stage that recompute
  // `modules`; the rest recompute nothing. Empty: no further layers recompute anything.
  std::vector<int> selective_layer_counts = {};
  auto operator<=>(const RecomputePlan&) const = default;
};

// One pipeline stage of a mixed cluster; overrides the plan's flat fields.
struct StagePlan {
  std::string pool = {};
  int node_count = 0;
  int tensor_parallel = 1;
  int data_parallel = 1;
  int context_parallel = 1;
  int layer_count = 0;
  int micro_batch_size = 1;
  RecomputePlan recompute = {};
  int device_count = 0;  // of a stage that is a part of one node; 0: whole nodes
  auto operator<=>(const StagePlan&) const = default;
};

// Equal replicas of the model in a plan whose replicas differ. Each is a pipeline of its own, whose
// stages have one rank of data parallelism.
struct ReplicaGroup {
  int replica_count = 1;
  int micro_batch_count = 1;           // of one replica in a step
  std::vector<StagePlan> stages = {};  // of one replica
  auto operator<=>(const ReplicaGroup&) const = default;
};

// One way to partition a training step across the devices: docs/glossary.md.
struct ParallelPlan {
  int tensor_parallel = 1;
  bool sequence_parallel = false;
  int pipeline_parallel = 1;
  int virtual_pipeline = 1;  // chunks per stage; > 1 with kInterleaved1f1b
  int data_parallel = 1;     // devices / (tensor x pipeline x context)
  int context_parallel = 1;
  ContextParallelKind context_parallel_kind = ContextParallelKind::kRing;
  int expert_parallel = 1;  // folded into tensor x context x data
  int expert_tensor_parallel = 1;
  int micro_batch_size = 1;  // sequences
  int zero_stage = 0;
  int zero_group_size = 0;  // 0: the whole data-parallel group
  Schedule schedule = Schedule::k1f1b;
  RecomputePlan recompute = {};
  std::vector<int> layers_per_stage = {};  // empty: the framework profile's split
  double optimizer_offload_ratio = 0.0;
  std::vector<StagePlan> stages = {};  // mixed clusters only
  RankOrder rank_order = RankOrder::kTpCpEpDpPp;
  // The share of each stage's layers whose stored activations wait for the backward pass in host
  // memory (OffloadedLayers).
  double activation_offload_ratio = 0.0;
  // The share of each stage's layers whose weights stay whole under ZeRO 3, as they do under ZeRO 2
  // (WholeLayers).
  double whole_weights_ratio = 0.0;
  // The one pool of a cluster of several that a plan without `stages` uses; the others are idle.
  // Empty: the cluster has one pool, or the stages name theirs.
  std::vector<std::string> pools = {};
  // Replicas of unequal shape; empty: the fields above, or `stages`, are those of all replicas.
  std::vector<ReplicaGroup> replica_groups = {};
  // The canonical order of plans compares field by field in the order above.
  auto operator<=>(const ParallelPlan&) const = default;
};

// A plan as the user stated it. Absent fields get a default, which the answer echoes
// (server/tuner/question/problem.h, ResolvePlan).
struct PlanRequest {
  std::optional<int> tensor_parallel = {};
  std::optional<bool> sequence_parallel = {};
  std::optional<int> pipeline_parallel = {};
  std::optional<int> virtual_pipeline = {};
  std::optional<int> data_parallel = {};
  std::optional<int> context_parallel = {};
  std::optional<ContextParallelKind> context_parallel_kind = {};
  std::optional<int> expert_parallel = {};
  std::optional<int> expert_tensor_parallel = {};
  std::optional<int> micro_batch_size = {};
  std::optional<int> zero_stage = {};
  std::optional<int> zero_group_size = {};
  std::optional<Schedule> schedule = {};
  std::optional<RecomputePlan> recompute = {};
  std::vector<int> layers_per_stage = {};
  std::optional<double> optimizer_offload_ratio = {};
  std::vector<StagePlan> stages = {};
  std::optional<RankOrder> rank_order = {};
  std::optional<double> activation_offload_ratio = {};
  std::optional<double> whole_weights_ratio = {};
  std::vector<std::string> pools = {};
  std::vector<ReplicaGroup> replica_groups = {};
  bool operator==(const PlanRequest&) const = default;
};

// Returns the fields with values that no problem allows (sizes below 1, unknown ZeRO stages, ...).
// ResolvePlan checks what depends on the problem.
std::vector<FieldViolation> Validate(const PlanRequest& plan, std::string_view prefix);

// The canonical identity of a plan: two plans have equal keys if and only if they are equal. Keys
// break ties between plans and index the history.
struct PlanKey {
  std::string text = {};    // "tp2.sp1.pp4.vp1.dp16...", with later fields only if set
  std::string digest = {};  // 16 hexadecimal digits over `text`
  auto operator<=>(const PlanKey&) const = default;
};

PlanKey MakePlanKey(const ParallelPlan& plan);

// Returns the plan whose PlanKey::text is `text`, or nullopt if there is none.
std::optional<ParallelPlan> ParsePlanKey(std::string_view text);

// Returns how many of a stage's `layers` have their activations on the host: the first floor(ratio
// x layers), but never the last layer, whose backward pass comes at once.
int OffloadedLayers(double ratio, int layers);

// Returns how many of a stage's `layers` keep their weights whole: the first floor(ratio x layers).
int WholeLayers(double ratio, int layers);

// Returns whether the stages of the plan name their pools.
inline bool StagesNamePools(const ParallelPlan& plan) {
  return !plan.stages.empty() || !plan.replica_groups.empty();
}

// Returns `stages`, or those of a replica of the first group. Empty if no stage names its pool.
const std::vector<StagePlan>& FirstPipeline(const ParallelPlan& plan);

// Returns the plan of one replica of a group alone: the plan with its stages and without groups.
ParallelPlan PlanOfReplica(const ParallelPlan& plan, const ReplicaGroup& group);

// Returns the number of replicas of all groups.
int ReplicaCount(const ParallelPlan& plan);

// Returns the number of pipeline stages: those of FirstPipeline, or else pipeline_parallel.
int StageCount(const ParallelPlan& plan);

// Returns the number of micro-batches that one pipeline runs per step.
int MicroBatchCount(const ParallelPlan& plan, int global_batch_size);

}  // namespace meshwright

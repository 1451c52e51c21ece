#pragma once

#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// Which activations are thrown away in the forward pass and computed again in the backward pass.
struct RecomputePlan {
  RecomputeGranularity granularity = RecomputeGranularity::kNone;
  std::vector<int> layer_counts = {};  // layers a stage recomputes; empty: every layer
  // Parts of a layer that recomputes selectively; empty: the framework profile's default.
  std::vector<std::string> modules = {};
  // Under kFull with layer_counts: the layers of a stage, after these, that recompute `modules`;
  // the rest recompute nothing. Empty: none does.
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
  auto operator<=>(const StagePlan&) const = default;
};

// One way to cut a training step across the devices: docs/glossary.md, contract "plan".
struct ParallelPlan {
  int tensor_parallel = 1;
  bool sequence_parallel = false;
  int pipeline_parallel = 1;
  int virtual_pipeline = 1;  // chunks a stage; > 1 with kInterleaved1f1b
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
  // Of the layers of each stage: what they keep for the backward pass waits in host memory
  // (OffloadedLayers).
  double activation_offload_ratio = 0.0;
  // Of the layers of each stage under ZeRO 3: their weights stay whole, as under ZeRO 2
  // (WholeLayers).
  double whole_weights_ratio = 0.0;
  // The canonical order of plans: field by field as above.
  auto operator<=>(const ParallelPlan&) const = default;
};

// A plan as the user stated it: what is absent takes a default that the answer echoes
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
  bool operator==(const PlanRequest&) const = default;
};

// Fields that no problem allows (sizes below 1, unknown ZeRO stages, ...). What depends on the
// problem is checked by ResolvePlan.
std::vector<FieldViolation> Validate(const PlanRequest& plan, std::string_view prefix);

// Canonical identity of a plan: equal plans, and only they, have equal keys. Ties between plans are
// broken by it, the history is keyed by it.
struct PlanKey {
  std::string text = {};    // "tp2.sp1.pp4.vp1.dp16...", later fields only where set
  std::string digest = {};  // 16 hexadecimal digits over `text`
  auto operator<=>(const PlanKey&) const = default;
};

PlanKey MakePlanKey(const ParallelPlan& plan);

// The plan whose PlanKey::text is `text`; nothing when it is not such a text.
std::optional<ParallelPlan> ParsePlanKey(std::string_view text);

// Layers of a stage of `layers` whose activations are on the host: the first
// floor(ratio x layers), at most all but the last, whose backward pass comes at once.
int OffloadedLayers(double ratio, int layers);

// Layers of a stage of `layers` whose weights stay whole: the first floor(ratio x layers).
int WholeLayers(double ratio, int layers);

// Pipeline stages: plan.stages' or pipeline_parallel.
int StageCount(const ParallelPlan& plan);

// Micro-batches that one pipeline runs a step.
int MicroBatchCount(const ParallelPlan& plan, int global_batch_size);

}  // namespace meshwright

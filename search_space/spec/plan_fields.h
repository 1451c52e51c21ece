#pragma once

#include <string_view>
#include <tuple>

#include "search_space/spec/choices.h"
#include "search_space/spec/plan.h"

// The table of plan fields. Keys, limits, defaults, requests, wire messages and the columns of
// vendors' models are generated from its rows. tests/plan_fields compares the rows with what cannot
// be generated: the .proto files, the C header and the Python reader of jobs. For adding a field
// see docs/architecture/next.md, "A plan field".

namespace meshwright {

// Larger than in any cluster, model or batch; products of four such sizes stay inside 64 bits.
inline constexpr int kLargestSize = 10'000;
inline constexpr int kLargestDeviceSize = 100'000'000;

// The places in which the default of a field is written. Fields that were added after the first
// keys or answers were stored omit their default, so that stored texts stay valid. New fields use
// kNowhere.
enum class DefaultIsWritten { kInKeysAndAnswers, kInAnswers, kNowhere };

// Facts about a field besides its type and its default, which are those of the struct's member.
struct FieldFacts {
  // The name of the field in requests, in wire messages and in the columns of vendors' models.
  std::string_view name = {};
  std::string_view code = {};  // letters before the value in a PlanKey
  // The limits of a number in a request, and of each number in a list. ParsePlanKey does not check
  // them. A double is a ratio from 0 to 1.
  int least = 0;
  int most = kLargestSize;
  DefaultIsWritten default_is_written = DefaultIsWritten::kInKeysAndAnswers;
  // ResolvePlan determines the default, not the struct.
  bool default_depends_on_problem = false;
  bool is_required = false;  // in every stated message that has the field
  bool is_column = true;     // the batches of vendors' models have it as a column
};

// A field of a stage or of recomputation.
template <typename Value, typename Struct>
struct InnerField {
  using value_type = Value;
  Value Struct::*member;
  FieldFacts facts;
};

// A field of a plan with its place in a request, where it may be absent.
template <typename Value, typename Stated>
struct PlanField {
  using value_type = Value;
  Value ParallelPlan::*member;
  Stated PlanRequest::*stated;
  FieldFacts facts;
};

constexpr FieldFacts NamedFacts(std::string_view name, std::string_view code, FieldFacts facts) {
  facts.name = name;
  facts.code = code;
  return facts;
}
template <typename Value, typename Struct>
constexpr InnerField<Value, Struct> FieldRow(std::string_view name, std::string_view code,
                                             Value Struct::*member, FieldFacts facts = {}) {
  return {member, NamedFacts(name, code, facts)};
}
template <typename Value, typename Stated>
constexpr PlanField<Value, Stated> FieldRow(std::string_view name, std::string_view code,
                                            Value ParallelPlan::*member,
                                            Stated PlanRequest::*stated, FieldFacts facts = {}) {
  return {member, stated, NamedFacts(name, code, facts)};
}

inline constexpr ParallelPlan kDefaultPlan = {};

template <typename Value, typename Stated>
constexpr const Value& DefaultOf(const PlanField<Value, Stated>& field) {
  return kDefaultPlan.*field.member;
}
template <typename Value, typename Struct>
constexpr Value DefaultOf(const InnerField<Value, Struct>& field) {
  return Struct{}.*field.member;
}

// Calls visit(row) for each row of a table, in its order.
template <typename Table, typename Visit>
constexpr void ForEachRow(const Table& table, Visit&& visit) {
  std::apply([&](const auto&... row) { (visit(row), ...); }, table);
}

// Returns true if the rows are the members of Struct: all of them, in their order.
template <typename Struct, typename... Rows>
constexpr bool AreAllMembers(const std::tuple<Rows...>&) {
  constexpr bool kHasThem = requires { Struct{typename Rows::value_type{}...}; };
  constexpr bool kHasMore = requires { Struct{typename Rows::value_type{}..., {}}; };
  return kHasThem && !kHasMore;
}

// The rows of each table are in the order of the struct, which is the order of a PlanKey.

inline constexpr std::tuple kRecomputeFields = {
    FieldRow("granularity", "rg", &RecomputePlan::granularity, {.is_required = true}),
    FieldRow("layer_counts", "rl", &RecomputePlan::layer_counts),
    FieldRow("modules", "rm", &RecomputePlan::modules),
    FieldRow("selective_layer_counts", "rs", &RecomputePlan::selective_layer_counts,
             {.default_is_written = DefaultIsWritten::kNowhere}),
};

// The fields of a stage of a mixed cluster. A stage states all its fields, except for those that
// most stages do not use.
inline constexpr std::tuple kStageFields = {
    FieldRow("pool", "pl", &StagePlan::pool, {.is_required = true}),
    FieldRow("node_count", "nd", &StagePlan::node_count,
             {.least = 1, .most = kLargestDeviceSize, .is_required = true}),
    FieldRow("tensor_parallel", "tp", &StagePlan::tensor_parallel,
             {.least = 1, .is_required = true}),
    FieldRow("data_parallel", "dp", &StagePlan::data_parallel,
             {.least = 1, .most = kLargestDeviceSize, .is_required = true}),
    FieldRow("context_parallel", "cp", &StagePlan::context_parallel, {.least = 1}),
    FieldRow("layer_count", "ly", &StagePlan::layer_count, {.is_required = true}),
    FieldRow("micro_batch_size", "mb", &StagePlan::micro_batch_size,
             {.least = 1, .most = kLargestDeviceSize, .is_required = true}),
    FieldRow("recompute", "", &StagePlan::recompute),
    FieldRow("device_count", "dc", &StagePlan::device_count,
             {.most = kLargestDeviceSize, .default_is_written = DefaultIsWritten::kNowhere}),
};

// The fields of a group of equal replicas.
inline constexpr std::tuple kReplicaGroupFields = {
    FieldRow("replica_count", "rc", &ReplicaGroup::replica_count,
             {.least = 1, .most = kLargestDeviceSize, .is_required = true}),
    FieldRow("micro_batch_count", "mc", &ReplicaGroup::micro_batch_count,
             {.least = 1, .most = kLargestDeviceSize, .is_required = true}),
    FieldRow("stages", "ps", &ReplicaGroup::stages, {.is_required = true}),
};

// A key lists the fields of a recomputation among those of its plan or stage, without a code.
inline constexpr std::tuple kPlanFields = {
    FieldRow("tensor_parallel", "tp", &ParallelPlan::tensor_parallel, &PlanRequest::tensor_parallel,
             {.least = 1, .default_depends_on_problem = true}),
    FieldRow("sequence_parallel", "sp", &ParallelPlan::sequence_parallel,
             &PlanRequest::sequence_parallel),
    FieldRow("pipeline_parallel", "pp", &ParallelPlan::pipeline_parallel,
             &PlanRequest::pipeline_parallel, {.least = 1, .default_depends_on_problem = true}),
    FieldRow("virtual_pipeline", "vp", &ParallelPlan::virtual_pipeline,
             &PlanRequest::virtual_pipeline, {.least = 1}),
    FieldRow("data_parallel", "dp", &ParallelPlan::data_parallel, &PlanRequest::data_parallel,
             {.least = 1, .most = kLargestDeviceSize, .default_depends_on_problem = true}),
    FieldRow("context_parallel", "cp", &ParallelPlan::context_parallel,
             &PlanRequest::context_parallel, {.least = 1, .default_depends_on_problem = true}),
    FieldRow("context_parallel_kind", "ck", &ParallelPlan::context_parallel_kind,
             &PlanRequest::context_parallel_kind, {.default_depends_on_problem = true}),
    FieldRow("expert_parallel", "ep", &ParallelPlan::expert_parallel, &PlanRequest::expert_parallel,
             {.least = 1}),
    FieldRow("expert_tensor_parallel", "et", &ParallelPlan::expert_tensor_parallel,
             &PlanRequest::expert_tensor_parallel, {.least = 1}),
    FieldRow("micro_batch_size", "mb", &ParallelPlan::micro_batch_size,
             &PlanRequest::micro_batch_size, {.least = 1, .most = kLargestDeviceSize}),
    FieldRow("zero_stage", "zs", &ParallelPlan::zero_stage, &PlanRequest::zero_stage, {.most = 3}),
    FieldRow("zero_group_size", "zg", &ParallelPlan::zero_group_size, &PlanRequest::zero_group_size,
             {.most = kLargestDeviceSize}),
    FieldRow("schedule", "sc", &ParallelPlan::schedule, &PlanRequest::schedule,
             {.default_depends_on_problem = true}),
    FieldRow("recompute", "", &ParallelPlan::recompute, &PlanRequest::recompute,
             {.default_depends_on_problem = true}),
    FieldRow("layers_per_stage", "lp", &ParallelPlan::layers_per_stage,
             &PlanRequest::layers_per_stage, {.default_depends_on_problem = true}),
    FieldRow("optimizer_offload_ratio", "oo", &ParallelPlan::optimizer_offload_ratio,
             &PlanRequest::optimizer_offload_ratio),
    FieldRow("stages", "st", &ParallelPlan::stages, &PlanRequest::stages,
             {.default_depends_on_problem = true, .is_column = false}),
    FieldRow(
        "rank_order", "ro", &ParallelPlan::rank_order, &PlanRequest::rank_order,
        {.default_is_written = DefaultIsWritten::kInAnswers, .default_depends_on_problem = true}),
    FieldRow("activation_offload_ratio", "ao", &ParallelPlan::activation_offload_ratio,
             &PlanRequest::activation_offload_ratio,
             {.default_is_written = DefaultIsWritten::kInAnswers}),
    FieldRow("whole_weights_ratio", "ww", &ParallelPlan::whole_weights_ratio,
             &PlanRequest::whole_weights_ratio, {.default_is_written = DefaultIsWritten::kNowhere}),
    FieldRow("pools", "po", &ParallelPlan::pools, &PlanRequest::pools,
             {.default_is_written = DefaultIsWritten::kNowhere, .is_column = false}),
    FieldRow("replica_groups", "gp", &ParallelPlan::replica_groups, &PlanRequest::replica_groups,
             {.default_is_written = DefaultIsWritten::kNowhere,
              .default_depends_on_problem = true,
              .is_column = false}),
};

static_assert(AreAllMembers<ParallelPlan>(kPlanFields), "a row of kPlanFields for each member");
static_assert(AreAllMembers<ReplicaGroup>(kReplicaGroupFields),
              "a row of kReplicaGroupFields for each member");
static_assert(AreAllMembers<StagePlan>(kStageFields), "a row of kStageFields for each member");
static_assert(AreAllMembers<RecomputePlan>(kRecomputeFields),
              "a row of kRecomputeFields for each member");

}  // namespace meshwright

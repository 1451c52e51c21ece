#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "estimator/layer/layer_split.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/plan_fields.h"
#include "search_space/spec/stage_places.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

template <typename Value>
std::string TextOf(const Value& value) {
  if constexpr (std::is_enum_v<Value>) {
    return std::string(Word(value));
  } else if constexpr (std::is_same_v<Value, RecomputePlan>) {
    return std::string(Word(value.granularity));
  } else {
    return fmt::format("{}", value);
  }
}

class PlanDefaults {
 public:
  PlanDefaults(std::vector<AppliedDefault>& applied, std::string_view prefix)
      : applied_(applied), prefix_(prefix) {}

  template <typename T>
  T Take(std::string_view field, const std::optional<T>& stated, T fallback,
         std::string_view source = "plan default") {
    if (stated.has_value()) return *stated;
    Note(field, TextOf(fallback), source);
    return fallback;
  }

  void Note(std::string_view field, std::string value, std::string_view source) {
    applied_.push_back({.field = fmt::format("{}.{}", prefix_, field),
                        .value = std::move(value),
                        .source = std::string(source)});
  }

 private:
  std::vector<AppliedDefault>& applied_;
  std::string_view prefix_;
};

const std::vector<StagePlan>& FirstPipelineOf(const PlanRequest& stated) {
  return stated.replica_groups.empty() ? stated.stages : stated.replica_groups.front().stages;
}

// Takes the four degrees whose product is the number of devices.
void TakeDegrees(const PlanRequest& stated, const Problem& problem, PlanDefaults& defaults,
                 ParallelPlan& plan) {
  plan.tensor_parallel = defaults.Take("tensor_parallel", stated.tensor_parallel, 1);
  const std::vector<StagePlan>& own = FirstPipelineOf(stated);
  const int stages = own.empty() ? 1 : static_cast<int>(own.size());
  plan.pipeline_parallel = defaults.Take("pipeline_parallel", stated.pipeline_parallel, stages);
  plan.context_parallel = defaults.Take("context_parallel", stated.context_parallel, 1);
  const std::int64_t divisor =
      std::int64_t{plan.tensor_parallel} * plan.pipeline_parallel * plan.context_parallel;
  const auto rest =
      static_cast<int>(divisor > 0 ? DeviceCount(problem.cluster) / divisor : std::int64_t{1});
  plan.data_parallel = defaults.Take("data_parallel", stated.data_parallel, rest,
                                     "devices / (tensor x pipeline x context)");
}

// Takes the fields whose default is the initial value of a plan.
void TakeFieldsWithFixedDefaults(const PlanRequest& stated, PlanDefaults& defaults,
                                 ParallelPlan& plan) {
  ForEachRow(kPlanFields, [&](const auto& field) {
    using Value = typename std::decay_t<decltype(field)>::value_type;
    if (field.facts.default_depends_on_problem) return;
    const auto& own = stated.*field.stated;
    if constexpr (std::is_same_v<std::decay_t<decltype(own)>, Value>) {  // a list
      plan.*field.member = own;
    } else if (field.facts.default_is_written == DefaultIsWritten::kNowhere) {
      plan.*field.member = own.value_or(DefaultOf(field));
    } else {
      plan.*field.member = defaults.Take<Value>(field.facts.name, own, DefaultOf(field));
    }
  });
}

std::string IdleNote(const NodePool& pool) {
  return fmt::format("pool \"{}\" is idle: the plan uses none of its {} nodes", pool.name,
                     pool.node_count);
}

// Returns a note for each pool that the plan's stages leave idle, wholly or in part.
std::vector<std::string> IdleNotes(const ParallelPlan& plan, const ClusterSpec& cluster) {
  std::map<std::string, int> used = PlaceStages(plan, cluster).node_counts;
  std::vector<std::string> notes;
  for (const NodePool& pool : cluster.pools) {
    const int nodes = used[pool.name];
    if (nodes == 0) {
      notes.push_back(IdleNote(pool));
    } else if (nodes < pool.node_count) {
      notes.push_back(fmt::format("pool \"{}\": the plan leaves {} of its {} nodes idle", pool.name,
                                  pool.node_count - nodes, pool.node_count));
    }
  }
  return notes;
}

// Leaves out the fields that `stages` and `replica_groups` override. Plans that differ only in them
// are one plan.
PlanRequest WithoutOverridden(PlanRequest stated) {
  if (stated.stages.empty() && stated.replica_groups.empty()) return stated;
  stated.tensor_parallel.reset();
  stated.data_parallel.reset();
  stated.context_parallel.reset();
  stated.micro_batch_size.reset();
  stated.recompute.reset();
  return stated;
}

// States stages whose device_count is that of whole nodes as such.
void StateWholeNodes(const ClusterSpec& cluster, ParallelPlan& plan) {
  const auto state = [&](StagePlan& stage) {
    const auto pool = std::ranges::find(cluster.pools, stage.pool, &NodePool::name);
    if (pool == cluster.pools.end()) return;
    const std::int64_t whole = std::int64_t{stage.node_count} * pool->devices_per_node;
    if (stage.device_count == whole) stage.device_count = 0;
  };
  std::ranges::for_each(plan.stages, state);
  for (ReplicaGroup& group : plan.replica_groups) std::ranges::for_each(group.stages, state);
}

}  // namespace

absl::StatusOr<ResolvedPlan> ResolvePlan(const PlanRequest& request, const Problem& problem,
                                         std::string_view prefix) {
  const auto& pools = problem.cluster.pools;
  const bool names_one =
      FirstPipelineOf(request).empty() && request.pools.size() == 1 && pools.size() > 1 &&
      std::ranges::find(pools, request.pools.front(), &NodePool::name) != pools.end();
  if (names_one) {
    PlanRequest alone = request;
    alone.pools.clear();
    ASSIGN_OR_RETURN(ResolvedPlan resolved,
                     ResolvePlan(alone, OnlyPool(problem, request.pools.front()), prefix));
    resolved.plan.pools = request.pools;
    return resolved;
  }
  if (!FirstPipelineOf(request).empty()) {
    const std::vector<FieldViolation> wrong = Validate(request, prefix);
    if (!wrong.empty()) return InvalidFields(wrong);
  }
  const PlanRequest stated = WithoutOverridden(request);
  ResolvedPlan resolved;
  ParallelPlan& plan = resolved.plan;
  PlanDefaults defaults(resolved.applied_defaults, prefix);
  TakeDegrees(stated, problem, defaults, plan);
  TakeFieldsWithFixedDefaults(stated, defaults, plan);
  const FrameworkProfile& profile = problem.profile;
  const std::string source = "framework profile " + profile.name;
  plan.context_parallel_kind =
      stated.context_parallel_kind.value_or(profile.context_parallel_kinds.front());
  if (!stated.context_parallel_kind.has_value() && plan.context_parallel > 1) {
    defaults.Note("context_parallel_kind", std::string(Word(plan.context_parallel_kind)), source);
  }
  plan.rank_order = stated.rank_order.value_or(profile.rank_orders.front());
  if (!stated.rank_order.has_value() && plan.pipeline_parallel > 1 && plan.data_parallel > 1) {
    defaults.Note("rank_order", std::string(Word(plan.rank_order)), source);
  }
  const Schedule usual = plan.virtual_pipeline > 1 ? Schedule::kInterleaved1f1b : Schedule::k1f1b;
  plan.schedule = stated.schedule.value_or(usual);
  if (!stated.schedule.has_value()) {
    defaults.Note("schedule", std::string(Word(usual)), "plan default");
  }
  plan.recompute = stated.recompute.value_or(RecomputePlan{});
  if (!stated.recompute.has_value()) {
    defaults.Note("recompute.granularity", "none", "plan default");
  }
  const bool is_selective = plan.recompute.granularity == RecomputeGranularity::kSelective ||
                            !plan.recompute.selective_layer_counts.empty();
  if (is_selective && plan.recompute.modules.empty()) {
    defaults.Note("recompute.modules", fmt::format("{}", fmt::join(profile.selective_modules, " ")),
                  source);
  }
  plan.layers_per_stage = stated.layers_per_stage;
  plan.stages = stated.stages;
  plan.replica_groups = stated.replica_groups;
  StateWholeNodes(problem.cluster, plan);
  const std::vector<FieldViolation> violations = CheckPlan(plan, problem, prefix);
  if (!violations.empty()) return InvalidFields(violations);
  plan.pools.clear();  // the only one, or those of the stages
  if (StagesNamePools(plan)) {
    plan.layers_per_stage.clear();           // the stages say the same
    std::ranges::sort(plan.replica_groups);  // their order means nothing
    if (!plan.replica_groups.empty()) plan.pipeline_parallel = StageCount(plan);
  } else if (plan.layers_per_stage.empty()) {
    plan = WithStatedSplit(std::move(plan), problem.model, profile);
    if (plan.pipeline_parallel > 1) {
      defaults.Note("layers_per_stage", fmt::format("{}", fmt::join(plan.layers_per_stage, " ")),
                    source);
    }
  }
  return resolved;
}

absl::StatusOr<ResolvedPlan> ResolveLaunchedPlan(const PlanRequest& stated, const Problem& problem,
                                                 std::string_view prefix) {
  ASSIGN_OR_RETURN(ResolvedPlan resolved, ResolvePlan(stated, problem, prefix));
  const std::vector<FieldViolation> refused = CheckLegality(resolved.plan, problem, prefix);
  if (!refused.empty()) return InvalidFields(refused);
  return resolved;
}

PlanRequest StatedPlan(const ParallelPlan& plan) {
  PlanRequest stated;
  ForEachRow(kPlanFields, [&](const auto& field) {
    const bool omits_default = field.facts.default_is_written == DefaultIsWritten::kNowhere;
    if (omits_default && plan.*field.member == DefaultOf(field)) return;
    stated.*field.stated = plan.*field.member;
  });
  return stated;
}

Problem OnlyPool(const Problem& problem, std::string_view pool) {
  Problem alone = problem;
  std::erase_if(alone.cluster.pools, [&](const NodePool& other) { return other.name != pool; });
  alone.cluster.pool_links.clear();
  for (const NodePool& other : problem.cluster.pools) {
    if (other.name != pool) alone.warnings.push_back(IdleNote(other));
  }
  return alone;
}

std::shared_ptr<const Problem> ProblemOfPlan(std::shared_ptr<const Problem> problem,
                                             const ParallelPlan& plan) {
  if (!plan.pools.empty()) {
    return std::make_shared<const Problem>(OnlyPool(*problem, plan.pools.front()));
  }
  if (!StagesNamePools(plan)) return problem;
  std::vector<std::string> notes = IdleNotes(plan, problem->cluster);
  if (notes.empty()) return problem;
  Problem noted = *problem;
  std::ranges::move(notes, std::back_inserter(noted.warnings));
  return std::make_shared<const Problem>(std::move(noted));
}

}  // namespace meshwright

#include "server/tuner/search/mixed/mixed_space.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "estimator/problem/legality_rule.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"
#include "server/tuner/question/checker.h"

namespace meshwright {
namespace {

template <typename Enum>
int CodeOf(Enum value) {
  return static_cast<int>(value);
}

// Returns the sizes of expert-tensor parallelism: none, or as that of the other weights can be.
std::vector<int> ExpertTensorSizes(const Problem& problem) {
  if (!problem.model.moe.has_value()) return {1};
  int most = 1;
  for (const NodePool& pool : problem.cluster.pools) {
    most = std::max(most, ScaleUpDeviceCount(pool));
  }
  std::vector<int> sizes = Divisors(problem.model.attention_head_count);
  std::erase_if(sizes, [&](int size) { return size > most; });
  return sizes;
}

}  // namespace

MixedSpace::MixedSpace(const Problem& problem) : problem_(problem) {
  if (!TakesRest()) return;
  const std::vector<int> experts = problem.model.moe.has_value()
                                       ? Divisors(problem.model.moe->expert_count)
                                       : std::vector<int>{1};
  for (const int sequences : Divisors(problem.workload.global_batch_size)) {
    for (const int expert : experts) {
      for (const int expert_tensor : ExpertTensorSizes(problem)) {
        if (!Takes(Dimension::kExpertParallel, expert)) continue;
        if (!Takes(Dimension::kExpertTensorParallel, expert_tensor)) continue;
        AddShared({.sequences = sequences,
                   .expert_parallel = expert,
                   .expert_tensor_parallel = expert_tensor});
      }
    }
  }
}

// Adds all shared choices with these sizes.
void MixedSpace::AddShared(const SharedDegrees& sizes) {
  const std::vector<MixRecompute> recomputes = Recomputes();
  for (const bool splits : {true, false}) {
    if (!Takes(Dimension::kSequenceParallel, splits ? 1 : 0)) continue;
    for (const ContextParallelKind kind : problem_.space.context_parallel_kinds) {
      if (!Takes(Dimension::kContextParallelKind, CodeOf(kind))) continue;
      for (int zero = 0; zero <= problem_.profile.largest_zero_stage_with_pipeline; ++zero) {
        if (!Takes(Dimension::kZeroStage, zero)) continue;
        for (const MixRecompute recompute : recomputes) {
          SharedDegrees& shared = shared_.emplace_back(sizes);
          shared.sequence_parallel = splits;
          shared.context_parallel_kind = kind;
          shared.zero_stage = zero;
          shared.recompute = recompute;
        }
      }
    }
  }
}

bool MixedSpace::Takes(Dimension dimension, int value) const {
  const auto chosen = problem_.space.chosen.find(dimension);
  return chosen == problem_.space.chosen.end() || chosen->second.Allows(value);
}

// Returns true if the user's choices allow the values that all mixed plans have.
bool MixedSpace::TakesRest() const {
  const auto& schedules = problem_.space.schedules;
  return std::ranges::find(schedules, Schedule::k1f1b) != schedules.end() &&
         Takes(Dimension::kSchedule, CodeOf(Schedule::k1f1b)) &&
         Takes(Dimension::kVirtualPipeline, 1) &&
         Takes(Dimension::kRankOrder, CodeOf(RankOrder::kTpCpEpDpPp)) &&
         Takes(Dimension::kLargestStage, 0) && Takes(Dimension::kFirstStage, 0) &&
         Takes(Dimension::kZeroGroupSize, 0) && Takes(Dimension::kWholeWeights, 0) &&
         Takes(Dimension::kOptimizerOffload, 0) && Takes(Dimension::kActivationOffload, 0);
}

// Returns true if no rule about this dimension refuses the stages.
bool MixedSpace::AllowsStages(const std::vector<StagePlan>& stages, Dimension decided_by) const {
  const ParallelPlan plan = {.sequence_parallel = true, .pipeline_parallel = 2, .stages = stages};
  const EstimatorProblem problem = ToEstimatorProblem(problem_);
  return std::ranges::none_of(problem_.legality, [&](const LegalityRule* rule) {
    return rule->is_for_stages && rule->decided_by == decided_by && rule->is_broken(problem, plan);
  });
}

// Returns true if stages may recompute different numbers of layers.
bool MixedSpace::RecomputesByStage() const {
  const StagePlan plain = {.pool = problem_.cluster.pools.front().name};
  StagePlan full = plain;
  full.recompute = RecomputeOf(MixRecompute::kLeastFull, 1);
  return AllowsStages({plain, full}, Dimension::kRecompute);
}

bool MixedSpace::NeedsEqualDegrees() const {
  const std::string& pool = problem_.cluster.pools.front().name;
  return !AllowsStages({{.pool = pool, .tensor_parallel = 2}, {.pool = pool, .tensor_parallel = 4}},
                       Dimension::kTensorParallel);
}

std::vector<MixRecompute> MixedSpace::Recomputes() const {
  const auto takes = [&](RecomputeGranularity granularity) {
    return Takes(Dimension::kRecompute, CodeOf(granularity));
  };
  const bool takes_none = takes(RecomputeGranularity::kNone);
  const bool takes_full =
      takes(RecomputeGranularity::kFull) && problem_.space.recomputed_layers == DimensionChoice();
  std::vector<MixRecompute> recomputes;
  if (takes_none && takes_full && RecomputesByStage()) {
    recomputes.push_back(MixRecompute::kLeastFull);
  } else {
    if (takes_none) recomputes.push_back(MixRecompute::kNone);
    if (takes_full) recomputes.push_back(MixRecompute::kEveryLayer);
  }
  if (takes(RecomputeGranularity::kSelective)) recomputes.push_back(MixRecompute::kSelective);
  return recomputes;
}

// Returns true if the framework allows these degrees beside equal ones in another pool.
bool MixedSpace::MayBeMixed(const PoolDegrees& degrees, const SharedDegrees& shared) const {
  ParallelPlan plan = FlatPlanOf(shared, 2, problem_);
  plan.stages.assign(2, StageOf(degrees, shared, problem_));
  const auto& pools = problem_.cluster.pools;
  plan.stages.back().pool = pools[degrees.pool == 0 ? 1 : 0].name;
  return BrokenRules(ToEstimatorProblem(problem_), plan).empty();
}

std::vector<PoolDegrees> MixedSpace::DegreesOf(int index, const SharedDegrees& shared) const {
  const NodePool& pool = problem_.cluster.pools[static_cast<std::size_t>(index)];
  const int fabric = ScaleUpDeviceCount(pool);
  const int heads = problem_.model.attention_head_count;
  std::vector<PoolDegrees> all;
  for (const int stages : Divisors(pool.node_count)) {
    const int devices = pool.node_count / stages * pool.devices_per_node;
    for (const int tensor : Divisors(devices)) {
      // Tensor parallelism stays inside a fabric, as the framework's ranks are numbered.
      if (fabric % tensor != 0 || heads % tensor != 0) continue;
      if (!Takes(Dimension::kTensorParallel, tensor)) continue;
      for (const int context : Divisors(devices / tensor)) {
        if (problem_.workload.sequence_length % context != 0) break;
        const int data = devices / tensor / context;
        if (shared.sequences % data != 0) continue;
        if (!Takes(Dimension::kContextParallel, context)) continue;
        if (!Takes(Dimension::kMicroBatchSize, shared.sequences / data)) continue;
        const PoolDegrees degrees = {.pool = index,
                                     .stages = stages,
                                     .tensor_parallel = tensor,
                                     .context_parallel = context,
                                     .data_parallel = data};
        if (MayBeMixed(degrees, shared)) all.push_back(degrees);
      }
    }
  }
  return all;
}

std::vector<std::vector<int>> MixedSpace::Sets() const {
  const std::size_t count = problem_.cluster.pools.size();
  std::vector<std::vector<int>> sets;
  for (std::uint64_t mask = 0; mask < std::uint64_t{1} << count; ++mask) {
    std::vector<int> set;
    for (std::size_t i = 0; i < count; ++i) {
      if ((mask >> i & 1U) != 0) set.push_back(static_cast<int>(i));
    }
    if (set.size() > 1) sets.push_back(set);
  }
  return sets;
}

bool MixedSpace::Allows(const MixedShape& shape) const {
  const int stages = StageCount(shape);
  if (!Takes(Dimension::kPipelineParallel, stages)) return false;
  const bool splits_any = std::ranges::any_of(
      shape.stretches, [](const PoolDegrees& degrees) { return degrees.tensor_parallel > 1; });
  const bool splits_context = std::ranges::any_of(
      shape.stretches, [](const PoolDegrees& degrees) { return degrees.context_parallel > 1; });
  // Choices that make no difference are not made.
  if (shape.shared.sequence_parallel && !splits_any) return false;
  if (!splits_context &&
      shape.shared.context_parallel_kind != problem_.space.context_parallel_kinds.front()) {
    return false;
  }
  const ParallelPlan plan = EvenPlanOf(shape, problem_);
  return CheckPlan(plan, problem_, "plan").empty() &&
         BrokenRules(ToEstimatorProblem(problem_), plan).empty();
}

std::int64_t MixedSpace::SplitCount(int stages) const {
  double count = 1;
  const int places = problem_.model.layer_count - 1;
  for (int i = 1; i < stages; ++i) count *= static_cast<double>(places - stages + 1 + i) / i;
  return count < static_cast<double>(kManyPlans) ? static_cast<std::int64_t>(count + 0.5)
                                                 : kManyPlans;
}

}  // namespace meshwright

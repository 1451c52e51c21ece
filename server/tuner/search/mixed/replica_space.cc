#include "server/tuner/search/mixed/replica_space.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "estimator/legality/legality.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/base/status.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "server/tuner/question/checker.h"

namespace meshwright {
namespace {

constexpr std::string_view kField = "replica_groups";

// Returns a plan of one replica in each of two pools.
ParallelPlan SampleOf(const Problem& problem, int first_count, int second_count) {
  std::vector<ReplicaGroup> groups;
  for (const int count : {first_count, second_count}) {
    ReplicaDegrees degrees = {.pool = static_cast<int>(groups.size())};
    groups.push_back(
        GroupOf(degrees, {.micro_batches = count, .split = EvenSplit(problem.model.layer_count, 1)},
                MixRecompute::kNone, problem));
  }
  return PlanOfGroups({}, groups, problem);
}

// Returns the rule about replica groups that the plan breaks; cautions count too.
const LegalityRule* BrokenRuleAboutGroups(const Problem& problem, const ParallelPlan& plan) {
  const EstimatorProblem estimator_problem = ToEstimatorProblem(problem);
  const auto broken = std::ranges::find_if(problem.legality, [&](const LegalityRule* rule) {
    return rule->field == kField && rule->is_broken(estimator_problem, plan);
  });
  return broken == problem.legality.end() ? nullptr : *broken;
}

}  // namespace

const LegalityRule* RuleAgainstReplicas(const Problem& problem) {
  return BrokenRuleAboutGroups(problem, SampleOf(problem, 1, 1));
}

ReplicaSpace::ReplicaSpace(const Problem& problem, const MixedSpace& mixed)
    : problem_(problem), mixed_(mixed) {
  if (mixed.shared().empty() || RuleAgainstReplicas(problem) != nullptr) return;
  needs_equal_shapes_ = BrokenRuleAboutGroups(problem, SampleOf(problem, 1, 2)) != nullptr;
  const bool has_experts = problem.model.moe.has_value();
  for (const int tensor : Divisors(problem.model.attention_head_count)) {
    if (!mixed.Takes(Dimension::kTensorParallel, tensor)) continue;
    for (const SharedDegrees& degrees : mixed.shared()) {
      if (degrees.sequences != mixed.shared().front().sequences) continue;
      // Gradients and weights are exchanged once a step.
      if (degrees.zero_stage > 1) continue;
      // Choices that make no difference are not made.
      if (degrees.sequence_parallel && tensor == 1) continue;
      const int experts = degrees.expert_parallel * degrees.expert_tensor_parallel;
      if (has_experts && experts != tensor) continue;
      shared_.push_back({.degrees = degrees, .tensor_parallel = tensor});
    }
  }
}

// Asks the checker about replicas of this layout. Their number of micro-batches is left to the
// search.
bool ReplicaSpace::IsPossible(const ReplicaDegrees& degrees, const SharedByReplicas& shared) {
  const auto [entry, is_new] = possible_.try_emplace(
      Layout(degrees, shared.degrees.context_parallel_kind, shared.degrees.expert_parallel));
  if (!is_new) return entry->second;
  const ReplicaWork work = {.split = EvenSplit(problem_.model.layer_count, degrees.stages)};
  const ParallelPlan plan = PlanOfGroups(
      shared.degrees, {GroupOf(degrees, work, MixRecompute::kNone, problem_)}, problem_);
  const std::vector<FieldViolation> wrong = CheckPlan(plan, problem_, "plan");
  entry->second = std::ranges::all_of(wrong, [](const FieldViolation& violation) {
    return violation.field == "plan.replica_groups";  // the sequences of a step
  });
  return entry->second;
}

std::vector<ReplicaDegrees> ReplicaSpace::DegreesOf(int index, const SharedByReplicas& shared) {
  const NodePool& pool = problem_.cluster.pools[static_cast<std::size_t>(index)];
  const int batch = problem_.workload.global_batch_size;
  const int node = pool.devices_per_node;
  const int tensor = shared.tensor_parallel;
  std::vector<ReplicaDegrees> all;
  if (ScaleUpDeviceCount(pool) % tensor != 0) return all;
  for (const int context : Divisors(DeviceCount(pool) / tensor)) {
    const int devices = tensor * context;
    if (node % devices != 0 && devices % node != 0) continue;
    if (problem_.workload.sequence_length % context != 0) continue;
    if (!mixed_.Takes(Dimension::kContextParallel, context)) continue;
    for (const int stages : Divisors(DeviceCount(pool) / devices)) {
      if (stages > problem_.model.layer_count) break;
      if (!mixed_.Takes(Dimension::kPipelineParallel, stages)) continue;
      ReplicaDegrees degrees = {.pool = index,
                                .replicas = DeviceCount(pool) / (devices * stages),
                                .stages = stages,
                                .tensor_parallel = tensor,
                                .context_parallel = context};
      if (degrees.replicas > batch || !IsPossible(degrees, shared)) continue;
      for (const int sequences : Divisors(batch)) {
        if (sequences > batch / degrees.replicas) break;
        if (!mixed_.Takes(Dimension::kMicroBatchSize, sequences)) continue;
        degrees.micro_batch_size = sequences;
        all.push_back(degrees);
      }
    }
  }
  return all;
}

bool ReplicaSpace::Allows(const ParallelPlan& plan) const {
  return CheckPlan(plan, problem_, "plan").empty() &&
         BrokenRules(ToEstimatorProblem(problem_), plan).empty();
}

}  // namespace meshwright

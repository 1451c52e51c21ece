#include "server/tuner/baseline.h"

#include <algorithm>

#include "search_space/space.h"
#include "server/tuner/checker.h"

namespace meshwright {
namespace {

ParallelPlan HandMade(const Problem& problem, int t, int p, int experts) {
  ParallelPlan plan;
  plan.tensor_parallel = t;
  plan.sequence_parallel = t > 1;
  plan.pipeline_parallel = p;
  plan.data_parallel = DeviceCount(problem.cluster) / (t * p);
  plan.context_parallel_kind = problem.profile.context_parallel_kinds.front();
  plan.expert_parallel = experts;
  plan.rank_order = problem.profile.rank_orders.front();
  plan.zero_stage = 1;
  return plan;
}

// Fits and is legal, without recomputation or with all of it.
bool Works(const ParallelPlan& plan, const Problem& problem, AnalyticModel& model) {
  if (plan.pipeline_parallel > problem.model.layer_count) return false;
  return CheckPlan(plan, problem, "baseline").empty() && model.CheckMemory(plan).fits;
}

}  // namespace

std::optional<ParallelPlan> DefaultBaseline(const Problem& problem, AnalyticModel& model) {
  const int devices = DeviceCount(problem.cluster);
  const int node = problem.cluster.pools.front().devices_per_node;
  const std::vector<int> experts = problem.model.moe.has_value()
                                       ? Divisors(problem.model.moe->expert_count)
                                       : std::vector<int>{1};
  for (const RecomputeGranularity recompute :
       {RecomputeGranularity::kNone, RecomputeGranularity::kFull}) {
    for (const int product : Divisors(devices)) {
      std::vector<int> tensor = Divisors(product);
      std::reverse(tensor.begin(), tensor.end());  // tensor inside the node first
      for (const int t : tensor) {
        if (node % t != 0) continue;
        for (const int e : experts) {
          ParallelPlan plan = HandMade(problem, t, product / t, e);
          plan.recompute.granularity = recompute;
          if (Works(plan, problem, model)) return plan;
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace meshwright

#include "server/tuner/search/baseline.h"

#include <algorithm>

#include "estimator/legality/legality.h"
#include "search_space/base/status.h"
#include "search_space/space/space.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/checker.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/search_plan.h"

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

// Returns true if the plan is legal and fits, either without recomputation or with full
// recomputation.
bool Works(const ParallelPlan& plan, const Problem& problem, AnalyticModel& model) {
  if (plan.pipeline_parallel > problem.model.layer_count) return false;
  return CheckPlan(plan, problem, "baseline").empty() && BrokenRules(ViewOf(problem), plan).empty() &&
         model.CheckMemory(plan).fits;
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
      std::reverse(tensor.begin(), tensor.end());  // tensor parallelism inside the node first
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

std::optional<RankedPlan> BaselineOf(const std::optional<ResolvedPlan>& stated,
                                     const Problem& problem, AnalyticModel& model,
                                     std::vector<AppliedDefault>& applied) {
  if (stated.has_value()) {
    applied.insert(applied.end(), stated->applied_defaults.begin(), stated->applied_defaults.end());
    return RankPlan(stated->plan, problem, model);
  }
  const std::optional<ParallelPlan> plan = DefaultBaseline(problem, model);
  if (!plan.has_value()) return std::nullopt;
  return RankPlan(*plan, problem, model);
}

void NoteBaseline(StudyResult& result) {
  if (!result.baseline.has_value()) {
    result.warnings.push_back("no plan that one would set by hand fits, so there is no baseline");
    return;
  }
  if (result.recommendation.has_value()) return;  // it says whether to keep the baseline
  const Estimate& baseline = result.baseline->estimate;
  if (baseline.fits && baseline.step_time <= result.plans.front().estimate.step_time) {
    result.warnings.push_back("keep the baseline: it is as fast as the best plan found");
  }
}

}  // namespace meshwright

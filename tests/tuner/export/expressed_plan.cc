#include "tests/tuner/export/expressed_plan.h"

#include <algorithm>
#include <vector>

#include "estimator/layer/layer_split.h"
#include "search_space/spec/choices.h"
#include "server/tuner/export/expressible.h"

namespace meshwright {
namespace {

RecomputePlan ExpressedRecompute(const ParallelPlan& plan, const Problem& problem) {
  switch (RecomputeFormOf(problem, plan)) {
    case RecomputeForm::kNothing:
      return {};
    case RecomputeForm::kSelective:
      return {.granularity = RecomputeGranularity::kSelective};
    case RecomputeForm::kEveryLayer:
      return {.granularity = RecomputeGranularity::kFull, .layer_counts = plan.layers_per_stage};
    case RecomputeForm::kSomeLayers:
      break;
  }
  RecomputePlan recompute = plan.recompute;
  for (std::size_t stage = 0; stage < recompute.layer_counts.size(); ++stage) {
    int& count = recompute.layer_counts[stage];
    count = std::min(count, plan.layers_per_stage[stage]);
  }
  return recompute;
}

}  // namespace

ParallelPlan ExpressedPlan(const ParallelPlan& plan, const Problem& problem) {
  ParallelPlan expressed = plan;
  const int ranks = plan.data_parallel * plan.context_parallel;
  if (plan.tensor_parallel == 1) expressed.sequence_parallel = false;
  if (plan.context_parallel == 1) expressed.context_parallel_kind = ContextParallelKind::kRing;
  if (plan.pipeline_parallel == 1) {
    expressed.schedule = Schedule::k1f1b;
    expressed.rank_order = RankOrder::kTpCpEpDpPp;
  }
  if (ranks == 1) expressed.zero_stage = 0;
  if (expressed.zero_stage == 0 || plan.zero_group_size == ranks) expressed.zero_group_size = 0;
  expressed.layers_per_stage = LayersPerStage(plan, problem.model, problem.profile);
  expressed.recompute = ExpressedRecompute(expressed, problem);
  return expressed;
}

}  // namespace meshwright

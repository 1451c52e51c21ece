#include "server/tuner/search/search_by_strategy.h"

#include <chrono>

#include "estimator/model/analytic_model.h"
#include "pruner/pruner.h"
#include "pruner/rules/history.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/base/units.h"
#include "search_space/space/space.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/search/best_plans.h"
#include "server/tuner/search/least_time.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kEvaluationsPerLook = 8;  // between two checks of the clock

// Prices a plan, unless a rule rejects it: then its time is of no use.
Observation Judge(AnalyticModel& model, const PruneContext& context, Pruning& pruning,
                  const ParallelPlan& plan, BestPlans& kept) {
  const MemoryCheck memory = model.CheckMemory(plan);
  Observation observation = {.plan = plan, .reserved_memory = memory.reserved_memory};
  if (!memory.fits) {
    kept.OfferNearest({.plan = plan, .reserved_memory = memory.reserved_memory});
  }
  if (pruning.CutPlan(context, {.plan = plan, .memory = memory}).has_value()) return observation;
  const QuickEstimate estimate = model.Quick(plan);
  observation.step_time = estimate.step_time;
  kept.Offer({.plan = plan, .estimate = estimate});
  return observation;
}

}  // namespace

SearchFound SearchByStrategy(SearchStrategy& strategy, AnalyticModel& model,
                             const SearchSpace& space, const SearchOptions& options,
                             int evaluation_limit) {
  const Clock::time_point start = Clock::now();
  BestPlans kept({.plan_count = options.plan_count});
  const FailedPlans failed(model.calibration(), model.problem());
  const PruneContext context = {
      .problem = model.problem(), .space = space, .model = &model, .failed = &failed};
  Pruning pruning;
  SearchFound found;
  SearchSummary& summary = found.summary;
  summary.space_count = space.Count();
  summary.stop_cause = StopCause::kEvaluationLimit;
  while (summary.evaluated_count < evaluation_limit) {
    const std::optional<StopCause> cause =
        options.stop && summary.evaluated_count % kEvaluationsPerLook == 0 ? options.stop()
                                                                           : std::nullopt;
    const std::optional<ParallelPlan> plan = cause.has_value() ? std::nullopt : strategy.Ask();
    if (!plan.has_value()) {
      summary.stop_cause = cause.value_or(StopCause::kFinished);
      break;
    }
    strategy.Tell(Judge(model, context, pruning, *plan, kept));
    ++summary.evaluated_count;
    if (!options.on_progress) continue;
    Progress progress = {.phase = "searching",
                         .space_count = summary.space_count,
                         .considered_count = summary.evaluated_count,
                         .evaluated_count = summary.evaluated_count,
                         .limit_count = evaluation_limit};
    if (!kept.best().empty()) progress.best_step_time = kept.best().front().estimate.step_time;
    options.on_progress(progress);
  }
  summary.least_time = LeastTimeOf(space, space.Root(), 0, {}, model);
  found.best = kept.best();
  if (found.best.empty()) found.nearest = kept.nearest();
  summary.seconds = std::chrono::duration_cast<Seconds>(Clock::now() - start);
  return found;
}

}  // namespace meshwright

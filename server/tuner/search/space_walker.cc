#include "server/tuner/search/space_walker.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "estimator/model/data_parallel.h"
#include "estimator/pipeline/pipeline_layout.h"
#include "pruner/rules/prune_rule.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"

namespace meshwright {
namespace {

constexpr int kGroupDepth = static_cast<int>(Dimension::kOptimizerOffload);
constexpr int kMaxMicroBatchByHand = 4;
constexpr int kMaxContextByHand = 8;

// Returns true if the dimensions set so far have values that a person would set by hand.
bool IsByHand(const PlanWalk& walk, const SpaceOptions& options) {
  const ParallelPlan& plan = walk.plan();
  const bool has_sequence = walk.depth() > static_cast<int>(Dimension::kSequenceParallel);
  return plan.context_parallel <= kMaxContextByHand &&
         plan.context_parallel_kind == options.context_parallel_kinds.front() &&
         plan.expert_tensor_parallel == 1 && plan.micro_batch_size <= kMaxMicroBatchByHand &&
         plan.layers_per_stage.empty() && plan.zero_group_size == 0 &&
         plan.whole_weights_ratio == 0 &&
         (!has_sequence || plan.sequence_parallel == (plan.tensor_parallel > 1));
}

}  // namespace

// The state of one walk.
struct SpaceWalker::Step {
  const WalkOptions& options;
  Pruning& pruning;
  PlanJudge& judge;
  PruneContext context;
  std::int64_t decided_count = 0;
  // Percentages of activations that fitted with this share of the optimizer or a smaller one.
  std::vector<int> fitting = {};

  void LookAtJudge() {
    const JudgeView view = judge.View();
    context.slowest_useful = view.slowest_useful;
    context.seeks_nearest = view.seeks_nearest;
    context.least_missed = view.least_missed;
  }
};

SpaceWalker::SpaceWalker(const SearchSpace& space, AnalyticModel& model)
    : space_(space),
      model_(model),
      failed_(model.calibration(), model.problem()),
      offload_costs_time_(OffloadCostsTime(model.problem())) {}

bool SpaceWalker::Walk(const ParallelPlan& prefix, int depth, const WalkOptions& options,
                       Pruning& pruning, PlanJudge& judge) {
  Step step = {
      .options = options,
      .pruning = pruning,
      .judge = judge,
      .context = {
          .problem = model_.problem(), .space = space_, .model = &model_, .failed = &failed_}};
  for (PlanWalk walk(space_, prefix, depth); walk.Next();) {
    if (!judge.GoesOn(walk.depth(), std::exchange(step.decided_count, 0))) return false;
    const bool is_by_hand = IsByHand(walk, space_.options());
    const bool is_left_out = !is_by_hand && options.grid != WalkGrid::kAll;
    if (is_left_out || IsCut(walk.plan(), walk.depth(), step)) {
      walk.Skip();
    } else if (walk.depth() == kGroupDepth) {
      walk.Skip();
      if (options.grid == WalkGrid::kByHandWithoutOffload) {
        TryWithoutOffload(walk.plan(), step);
      } else {
        TryOffload(walk.plan(), is_by_hand, step);
      }
    }
  }
  return judge.GoesOn(depth, step.decided_count);
}

bool SpaceWalker::IsCut(const ParallelPlan& prefix, int depth, Step& step) {
  if (depth >= kMicroBatchDepth) step.LookAtJudge();
  const std::optional<std::int64_t> below = step.pruning.CutPrefix(step.context, prefix, depth);
  step.decided_count += below.value_or(0);
  return below.has_value();
}

void SpaceWalker::TryWithoutOffload(ParallelPlan plan, Step& step) {
  for (const Dimension offload : {Dimension::kOptimizerOffload, Dimension::kActivationOffload}) {
    const std::vector<int> values = space_.Values(offload, plan);
    if (std::ranges::find(values, 0) == values.end()) return;
    space_.Set(offload, 0, plan);
  }
  if (!IsCut(plan, kGroupDepth + 1, step)) TryRecomputation(plan, /*is_by_hand=*/true, step);
}

// Tries all offload shares of one plan. Offload saves memory and usually costs time; if it does and
// the plan fits without recomputation, a larger share is of no use.
void SpaceWalker::TryOffload(const ParallelPlan& group, bool is_by_hand, Step& step) {
  ParallelPlan plan = group;
  step.fitting.clear();
  for (const int percent : space_.Values(Dimension::kOptimizerOffload, group)) {
    space_.Set(Dimension::kOptimizerOffload, percent, plan);
    if (IsCut(plan, kGroupDepth + 1, step)) continue;
    if (!offload_costs_time_ && step.options.pricing != Pricing::kJudge) step.fitting.clear();
    TryActivationOffload(plan, is_by_hand && percent == 0, step);
  }
}

void SpaceWalker::TryActivationOffload(const ParallelPlan& group, bool is_by_hand, Step& step) {
  ParallelPlan plan = group;
  // Exposed copies never shorten a step that has a fixed order of operations.
  const bool costs_time = HasFixedOrder(group.schedule);
  const bool any_fit_is_enough = step.options.pricing == Pricing::kJudge;
  for (const int percent : space_.Values(Dimension::kActivationOffload, group)) {
    space_.Set(Dimension::kActivationOffload, percent, plan);
    const std::int64_t below = space_.CountBelow(plan, kGroupDepth + 2);
    step.decided_count += below;
    const bool is_dominated = std::ranges::any_of(step.fitting, [&](int less) {
      return any_fit_is_enough || less == percent || (costs_time && less < percent);
    });
    if (is_dominated && step.pruning.IsOn(kDominanceRule)) {
      step.pruning.Count(kDominanceRule, below);
    } else if (TryRecomputation(plan, is_by_hand && percent == 0, step)) {
      step.fitting.push_back(percent);
    }
  }
}

// Tries the recomputation choices of a plan. Returns true if it fits without recomputation.
bool SpaceWalker::TryRecomputation(const ParallelPlan& plan, bool is_by_hand, Step& step) {
  step.LookAtJudge();
  Pruning& pruning = step.pruning;
  const bool is_judges = step.options.pricing == Pricing::kJudge;
  const bool has_failed = failed_.HaveOneLike(plan);
  NarrowOptions options = {.by_memory = is_judges || pruning.IsOn(kMemoryRule),
                           .by_dominance = pruning.IsOn(kDominanceRule) && !has_failed,
                           .by_framework = pruning.IsOn(kFrameworkRule),
                           .by_closed_form = step.options.pricing != Pricing::kSimulation,
                           .failed = has_failed ? &failed_ : nullptr};
  if (pruning.IsOn(kBoundRule)) options.slowest_useful = step.context.slowest_useful;
  NarrowedRecompute narrowed = NarrowRecompute(model_, space_, plan, options);
  const std::int64_t by_history = CountPrunedByHistory(plan, narrowed);
  pruning.Count(kMemoryRule, narrowed.pruned_by_memory - by_history);
  pruning.Count(kHistoryRule, by_history + narrowed.failed);
  pruning.Count(kDominanceRule, narrowed.pruned_by_dominance);
  pruning.Count(kBoundRule, narrowed.pruned_by_bound);
  pruning.Count(kFrameworkRule, narrowed.pruned_by_framework);
  std::erase_if(narrowed.kept, [&](const RecomputeChoice& choice) {
    const QuickEstimate& estimate = choice.estimate;
    const MemoryCheck memory = {.reserved_memory = estimate.reserved_memory,
                                .fits = estimate.fits,
                                .fits_device = estimate.fits};
    return pruning.CutPlan(step.context, {.plan = choice.plan, .memory = memory}).has_value();
  });
  step.judge.Take(narrowed, is_by_hand);
  return std::ranges::any_of(narrowed.kept, [](const RecomputeChoice& choice) {
    return choice.estimate.fits && choice.plan.recompute.granularity == RecomputeGranularity::kNone;
  });
}

// Returns how many of the choices that do not fit would fit without the history's out-of-memory
// runs.
std::int64_t SpaceWalker::CountPrunedByHistory(const ParallelPlan& plan,
                                               const NarrowedRecompute& narrowed) {
  const bool may_be = model_.calibration().out_of_memory.has_value();
  if (!may_be || narrowed.pruned_by_memory == 0) return 0;
  const std::int64_t oversized = CountOversized(model_, space_, plan);
  return std::max<std::int64_t>(0, narrowed.pruned_by_memory - oversized);
}

}  // namespace meshwright

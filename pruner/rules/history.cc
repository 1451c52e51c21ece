#include "pruner/rules/history.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "estimator/layer/layer_split.h"
#include "estimator/learning/calibration.h"
#include "estimator/model/plan_bounds.h"
#include "estimator/problem/estimator_problem.h"
#include "pruner/rules/memory_order.h"
#include "pruner/rules/prune_rule.h"
#include "pruner/rules/rules.h"
#include "search_space/base/units.h"
#include "search_space/space/dimensions.h"
#include "search_space/space/space.h"
#include "search_space/space/space_options.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

// Rewrites numbers of layers by stage as a granularity if they cover every layer.
void WriteAsGranularity(const std::vector<int>& layers, RecomputePlan& recompute) {
  const auto is_zero = [](int count) { return count == 0; };
  if (!std::ranges::all_of(recompute.layer_counts, is_zero)) return;
  const std::vector<int>& selective = recompute.selective_layer_counts;
  if (std::ranges::all_of(selective, is_zero)) {
    recompute = {};
  } else if (selective == layers) {
    recompute = {.granularity = RecomputeGranularity::kSelective, .modules = recompute.modules};
  }
}

}  // namespace

std::string_view FailureWords(Outcome outcome) {
  switch (outcome) {
    case Outcome::kOom:
      return "ran out of memory";
    case Outcome::kCrash:
      return "crashed";
    case Outcome::kHang:
      return "hung";
    case Outcome::kTimeout:
      return "took too long";
    case Outcome::kOk:
    case Outcome::kCancelled:
      break;
  }
  std::abort();  // not a failure
}

FailedPlans::FailedPlans(const Calibration& calibration, const EstimatorProblem& problem)
    : problem_(problem), runs_(calibration.failed) {
  for (FailedRun& run : runs_) run.plan = Written(run.plan);
}

// Writes out the split of layers and the number of recomputed layers of each stage.
ParallelPlan FailedPlans::Written(ParallelPlan plan) const {
  plan = WithStatedSplit(std::move(plan), problem_.model, problem_.profile);
  const std::vector<int>& layers = plan.layers_per_stage;
  RecomputePlan& recompute = plan.recompute;
  const bool is_selective = recompute.granularity == RecomputeGranularity::kSelective ||
                            !recompute.selective_layer_counts.empty();
  if (is_selective && recompute.modules.empty()) {
    recompute.modules = problem_.profile.selective_modules;
  }
  if (recompute.granularity != RecomputeGranularity::kFull) return plan;
  const std::vector<int> asked = recompute.layer_counts;
  recompute.layer_counts = layers;
  for (std::size_t i = 0; !asked.empty() && i < layers.size(); ++i) {
    recompute.layer_counts[i] = std::min(asked[std::min(i, asked.size() - 1)], layers[i]);
  }
  std::vector<int>& selective = recompute.selective_layer_counts;
  for (std::size_t i = 0; i < std::min(selective.size(), layers.size()); ++i) {
    selective[i] = std::min(selective[i], layers[i] - recompute.layer_counts[i]);
  }
  WriteAsGranularity(layers, recompute);
  return plan;
}

const FailedRun* FailedPlans::Find(const ParallelPlan& plan) const {
  if (!HaveOneLike(plan)) return nullptr;
  const auto found = std::ranges::find(runs_, Written(plan), &FailedRun::plan);
  return found == runs_.end() ? nullptr : &*found;
}

bool FailedPlans::HaveOneLike(const ParallelPlan& plan) const {
  return std::ranges::any_of(runs_, [&](const FailedRun& run) {
    const ParallelPlan& failed = run.plan;
    return failed.tensor_parallel == plan.tensor_parallel &&
           failed.pipeline_parallel == plan.pipeline_parallel &&
           failed.context_parallel == plan.context_parallel &&
           failed.micro_batch_size == plan.micro_batch_size &&
           failed.zero_stage == plan.zero_stage && failed.schedule == plan.schedule;
  });
}

// Rejects a prefix if the modelled memory of every plan below it is at least that of a run that ran
// out of memory.
std::optional<Rejection> CheckHistory(const PruneContext& context, const ParallelPlan& plan,
                                      int depth) {
  if (context.model == nullptr || !JustSet(Dimension::kRankOrder, depth)) return std::nullopt;
  const std::optional<FailedRun>& failed = context.model->calibration().out_of_memory;
  if (!failed.has_value()) return std::nullopt;
  const MostOffloaded most = context.space.MostOffloadedBelow(plan);
  const Bytes least = PlanBounds(*context.model).LeastMemoryBelow(plan, most);
  // The rule `memory` handles plans that are larger than the device.
  if (least > context.problem.cluster.pools.front().memory_capacity) return std::nullopt;
  if (!PlanBounds(*context.model).HasFailedBelow(plan, most) || context.MayBeNearest(least)) {
    return std::nullopt;
  }
  return Rejection{
      .rule = kHistoryRule,
      .reason =
          "every plan of these sizes is estimated to need at least as much memory as a "
          "run that ran out of it",
      .value = static_cast<double>(least.count),
      .limit = static_cast<double>(failed->reserved_memory.count)};
}

std::optional<Rejection> CheckPlanHistory(const PruneContext& context, const PricedPlan& plan) {
  if (!plan.memory.fits && plan.memory.fits_device) {
    return Rejection{
        .rule = kHistoryRule,
        .reason = "estimated to need at least as much memory as a run that ran out of it",
        .value = static_cast<double>(plan.memory.reserved_memory.count)};
  }
  if (context.failed == nullptr || context.failed->Find(plan.plan) == nullptr) return std::nullopt;
  return Rejection{.rule = kHistoryRule, .reason = "failed when it was run"};
}

std::int64_t CountOversized(AnalyticModel& model, const SearchSpace& space,
                            const ParallelPlan& prefix) {
  ParallelPlan plan = prefix;
  const auto is_oversized = [&](int code) {
    space.Set(Dimension::kRecompute, code, plan);
    return !model.CheckMemory(plan).fits_device;
  };
  const std::vector<int> codes = space.Values(Dimension::kRecompute, prefix);
  // More fully recomputed layers never need more memory.
  const auto full = std::ranges::upper_bound(codes, kSelectiveRecomputeCode);
  const auto fits = std::partition_point(full, codes.end(), is_oversized);
  return std::count_if(codes.begin(), full, is_oversized) + (fits - full);
}

std::string NameOf(const FailedRun& run) {
  return fmt::format("{} of {}", MakePlanKey(run.plan).text,
                     run.job.empty() ? "this job" : run.job);
}

std::optional<std::string> WhyRuledOut(const ParallelPlan& plan, const Calibration& calibration,
                                       const EstimatorProblem& problem) {
  const FailedPlans plans(calibration, problem);
  if (const FailedRun* run = plans.Find(plan)) {
    return fmt::format("rule {}: {} {}", kHistoryRule, NameOf(*run), FailureWords(run->outcome));
  }
  const std::optional<FailedRun>& failed = calibration.out_of_memory;
  if (!failed.has_value()) return std::nullopt;
  // The model is the uncalibrated one, by which the failed run's size was computed too.
  AnalyticModel model(problem);
  const Bytes size = model.CheckMemory(plan).reserved_memory;
  AnalyticModel learnt(problem, calibration);
  const MemoryCheck check = learnt.CheckMemory(plan);
  if (check.fits || !check.fits_device) return std::nullopt;
  std::string text = fmt::format(
      "rule {}: estimated at {:.2f} GiB without history, not less than the {:.2f} GiB of "
      "{}, which ran out of memory",
      kHistoryRule, size / GiB(1), failed->reserved_memory / GiB(1), NameOf(*failed));
  if (!failed->job.empty()) return text;
  const auto reasons = NeedsAtLeast(plan, failed->plan, problem);
  if (reasons.has_value() && !reasons->empty()) {
    text += fmt::format("; it needs at least as much by {}", fmt::join(*reasons, ", "));
  }
  return text;
}

}  // namespace meshwright

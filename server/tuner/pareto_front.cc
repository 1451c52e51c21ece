#include "server/tuner/pareto_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "server/tuner/calibrate.h"
#include "server/tuner/infeasible.h"
#include "server/tuner/search_plan.h"

namespace meshwright {
namespace {

bool Leaves(const Estimate& estimate, double free_ratio) {
  return estimate.reserved_memory <= Scale(estimate.memory_capacity, 1 - free_ratio);
}

// The most of the levels that the plan leaves free; 0 where it leaves none.
double LevelOf(const Estimate& estimate) {
  double most = 0;
  for (const double level : kFreeMemoryLevels) {
    if (Leaves(estimate, level)) most = level;
  }
  return most;
}

}  // namespace

absl::StatusOr<std::optional<RankedPlan>> BestWithin(const Problem& problem, double free_ratio,
                                                     const Calibration& calibration,
                                                     const SearchOptions& options) {
  Problem smaller = problem;
  NodePool& pool = smaller.cluster.pools.front();
  pool.memory_capacity = Scale(pool.memory_capacity, 1 - free_ratio);
  const SearchFound found =
      SearchExhaustively(SpaceOf(smaller), ViewOf(smaller), calibration, options);
  if (!found.summary.complete) {
    return found.summary.stop_cause == StopCause::kCancelled
               ? absl::CancelledError("cancelled")
               : absl::DeadlineExceededError("the deadline leaves no time for all points");
  }
  if (found.best.empty()) return std::optional<RankedPlan>();
  AnalyticModel model(ViewOf(problem), calibration);
  return std::optional(RankPlan(found.best.front().plan, problem, model));
}

void AddParetoFront(const Problem& problem, const Calibration& calibration,
                    const SearchOptions& options, StudyResult& result) {
  const auto warn = [&](double level) {
    result.warnings.push_back(fmt::format(
        "the search was cut: pareto_front has no proven point that leaves {:.0f} % or more of the "
        "memory free",
        100 * level));
  };
  const auto add = [&](RankedPlan plan) {
    const double level = LevelOf(plan.estimate);
    result.pareto_front.push_back({.free_memory_ratio = level, .plan = std::move(plan)});
  };
  if (!result.search.complete) return warn(0);
  add(result.plans.front());
  SearchOptions one = options;
  one.plan_count = 1;
  one.on_progress = {};  // the counts of the answer's own search stand
  for (const double level : kFreeMemoryLevels) {
    if (Leaves(result.pareto_front.back().plan.estimate, level)) continue;
    absl::StatusOr<std::optional<RankedPlan>> best = BestWithin(problem, level, calibration, one);
    if (!best.ok()) return warn(level);
    if (!best->has_value()) return;
    add(**std::move(best));
  }
}

std::vector<ParetoPoint> FrontOf(std::vector<ParetoPoint> points) {
  std::ranges::stable_sort(points, [](const ParetoPoint& a, const ParetoPoint& b) {
    return std::pair(a.plan.estimate.step_time, -a.free_memory_ratio) <
           std::pair(b.plan.estimate.step_time, -b.free_memory_ratio);
  });
  std::vector<ParetoPoint> front;
  for (ParetoPoint& point : points) {
    const bool is_better =
        front.empty() || point.free_memory_ratio > front.back().free_memory_ratio;
    if (is_better) front.push_back(std::move(point));
  }
  return front;
}

}  // namespace meshwright

#include "server/tuner/pareto_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "search_space/status.h"
#include "server/tuner/asked_model.h"
#include "server/tuner/calibrate.h"
#include "server/tuner/infeasible.h"
#include "server/tuner/model_search.h"
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

// OK where the search has seen all that it must.
absl::Status CutOf(const SearchSummary& summary, std::int64_t limit) {
  switch (summary.stop_cause) {
    case StopCause::kCancelled:
      return absl::CancelledError("cancelled");
    case StopCause::kDeadline:
      return absl::DeadlineExceededError("the deadline leaves no time for all points");
    case StopCause::kEvaluationLimit:
      return WithReason(absl::ResourceExhaustedError(fmt::format(
                            "evaluation limit reached: more than {} plans to ask for", limit)),
                        "EVALUATION_LIMIT");
    case StopCause::kFinished:
      break;
  }
  return absl::OkStatus();
}

// Why what a vendor's model answered is no point; OK where it is one, or nothing fits.
absl::Status Unproven(const ModelFound& searched, const ModelVersion& version) {
  const bool is_complete = searched.found.summary.complete;
  const bool has_best = !searched.found.best.empty();
  if (is_complete && (has_best || searched.unanswered.empty())) return absl::OkStatus();
  std::string text = is_complete ? "no plan that fits has an estimate" : "the search was misled";
  for (const std::string& warning : WarningsOf(searched, version)) text += "; " + warning;
  return WithReason(absl::FailedPreconditionError(text), "COST_MODEL_NO_ESTIMATE");
}

absl::StatusOr<PointFound> BestByModel(const Problem& smaller, const Problem& problem,
                                       const PointSearch& by) {
  ASSIGN_OR_RETURN(AskedModel asked, OpenAskedModel(by.request.cost_model, smaller,
                                                    by.control.open_model, by.control.cancel));
  if (asked.fallback.has_value()) return PointFound{.fallback = asked.fallback};
  const int limit = by.request.evaluation_limit.value_or(kDefaultModelLimit);
  const ModelFound searched =
      SearchByModel(smaller, by.calibration, *asked.model, by.options, limit);
  if (!searched.failure.ok()) {
    RETURN_IF_ERROR(FallBack(*by.request.cost_model, searched.failure, asked));
    return PointFound{.fallback = asked.fallback};
  }
  RETURN_IF_ERROR(CutOf(searched.found.summary, limit));
  const ModelVersion& version = asked.model->version();
  RETURN_IF_ERROR(Unproven(searched, version));
  PointFound point = {.warnings = asked.model->warnings()};
  for (std::string& warning : WarningsOf(searched, version)) {
    point.warnings.push_back(std::move(warning));
  }
  if (searched.found.best.empty()) return point;
  AnalyticModel model(ViewOf(problem), by.calibration);
  point.best = RankPlan(searched.found.best.front().plan, problem, model);
  RankedPlan* const best[] = {&*point.best};
  RETURN_IF_ERROR(ApplyModel(asked, problem, searched, best, by.control.cancel));
  return point;
}

}  // namespace

absl::StatusOr<PointFound> BestWithin(const Problem& problem, double free_ratio,
                                      const PointSearch& by) {
  Problem smaller = problem;
  NodePool& pool = smaller.cluster.pools.front();
  pool.memory_capacity = Scale(pool.memory_capacity, 1 - free_ratio);
  if (by.request.cost_model.has_value() && !by.fallback.has_value()) {
    return BestByModel(smaller, problem, by);
  }
  const SearchFound found =
      SearchExhaustively(SpaceOf(smaller), ViewOf(smaller), by.calibration, by.options);
  RETURN_IF_ERROR(CutOf(found.summary, found.summary.evaluated_count));
  PointFound point;
  if (found.best.empty()) return point;
  AnalyticModel model(ViewOf(problem), by.calibration);
  point.best = RankPlan(found.best.front().plan, problem, model);
  point.best->estimate.cost_model = by.fallback;
  return point;
}

void AddParetoFront(const Problem& problem, const PointSearch& by, StudyResult& result) {
  const auto warn = [&](double level, std::string_view why) {
    result.warnings.push_back(fmt::format(
        "pareto_front has no proven point that leaves {:.0f} % or more of the memory free: {}",
        100 * level, why));
  };
  const auto add = [&](RankedPlan plan) {
    const double level = LevelOf(plan.estimate);
    result.pareto_front.push_back({.free_memory_ratio = level, .plan = std::move(plan)});
  };
  if (!result.search.complete) return warn(0, "the search was cut");
  add(result.plans.front());
  SearchOptions one = by.options;
  one.plan_count = 1;
  one.on_progress = {};  // the counts of the answer's own search stand
  for (const double level : kFreeMemoryLevels) {
    if (Leaves(result.pareto_front.back().plan.estimate, level)) continue;
    absl::StatusOr<PointFound> found = BestWithin(problem, level,
                                                  {.request = by.request,
                                                   .calibration = by.calibration,
                                                   .options = one,
                                                   .control = by.control,
                                                   .fallback = by.fallback});
    if (!found.ok()) return warn(level, std::string(found.status().message()));
    if (found->fallback.has_value()) return warn(level, found->fallback->reason);
    for (const std::string& warning : found->warnings) {
      if (std::ranges::find(result.warnings, warning) != result.warnings.end()) continue;
      result.warnings.push_back(
          fmt::format("pareto_front, {:.0f} % of the memory free: {}", 100 * level, warning));
    }
    if (!found->best.has_value()) return;
    add(*std::move(found->best));
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

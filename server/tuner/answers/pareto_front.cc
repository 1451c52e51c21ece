#include "server/tuner/answers/pareto_front.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/search/model_search.h"
#include "server/tuner/search/question_search.h"
#include "server/tuner/search/requested_model.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/search/stop_status.h"

namespace meshwright {
namespace {

bool Leaves(const Estimate& estimate, double free_ratio) {
  return estimate.reserved_memory <= Scale(estimate.memory_capacity, 1 - free_ratio);
}

// Returns the highest level that the plan leaves free, or 0 if it leaves none.
double LevelOf(const Estimate& estimate) {
  double most = 0;
  for (const double level : kFreeMemoryLevels) {
    if (Leaves(estimate, level)) most = level;
  }
  return most;
}

constexpr std::string_view kForAllPoints = "for all points";

// Returns notes on what a vendor's model left open about a point.
std::vector<std::string> NotesOf(const ModelFound& searched, const PlanModel& model) {
  std::vector<std::string> notes = model.warnings();
  for (std::string& warning : WarningsOf(searched, model.version())) {
    notes.push_back(std::move(warning));
  }
  const SearchSummary& summary = searched.found.summary;
  if (summary.stop_cause == StopCause::kEvaluationLimit) {
    notes.push_back(
        fmt::format("cost model {}: the best of the {} plans that it estimated, not proven best",
                    model.version().name, summary.evaluated_count));
  }
  return notes;
}

absl::StatusOr<PointFound> PointOf(const ModelFound& searched, RequestedModel& asked,
                                   const PreparedQuestion& question, const StudyControl& control) {
  RETURN_IF_ERROR(CutStatus(searched.found.summary.stop_cause, kForAllPoints));
  PointFound point = {.warnings = NotesOf(searched, *asked.model)};
  if (searched.found.best.empty()) return point;
  const Problem& problem = question.problem;
  AnalyticModel model(ToEstimatorProblem(problem), question.learnt.calibration);
  point.best = RankPlan(searched.found.best.front().plan, problem, model);
  RankedPlan* const best[] = {&*point.best};
  RETURN_IF_ERROR(ApplyModel(asked, problem, searched, best, control.cancel));
  return point;
}

absl::StatusOr<PointFound> BestByModel(const Problem& smaller, const PreparedQuestion& question,
                                       const SearchOptions& options, const StudyControl& control) {
  // No program is started if there is no time left to ask it.
  if (options.stop) {
    RETURN_IF_ERROR(CutStatus(options.stop().value_or(StopCause::kFinished), kForAllPoints));
  }
  ASSIGN_OR_RETURN(RequestedModel asked, OpenRequestedModel(question.request.cost_model, smaller,
                                                            control.open_model, control.cancel));
  if (asked.fallback.has_value()) return PointFound{.fallback = asked.fallback};
  ASSIGN_OR_RETURN(
      const std::optional<ModelFound> searched,
      SearchByRequestedModel(asked, question, smaller, options, PartialAnswer::kIsNone));
  if (!searched.has_value()) return PointFound{.fallback = asked.fallback};
  return PointOf(*searched, asked, question, control);
}

}  // namespace

absl::StatusOr<PointFound> BestWithin(const PreparedQuestion& question, const MemoryLimits& limits,
                                      const SearchOptions& options, const StudyControl& control,
                                      const std::optional<CostModelSource>& fallback) {
  Problem smaller = question.problem;
  NodePool& pool = smaller.cluster.pools.front();
  pool.memory_capacity = Scale(pool.memory_capacity, 1 - limits.free_ratio);
  if (question.request.cost_model.has_value() && !fallback.has_value()) {
    return BestByModel(smaller, question, options, control);
  }
  const Calibration& calibration = question.learnt.calibration;
  Problem sure = WithSureMemory(question.problem, limits.fit_probability, calibration);
  Bytes& memory = sure.cluster.pools.front().memory_capacity;
  memory = std::min(memory, pool.memory_capacity);
  SearchFound found = BestPlansOf(sure, calibration, options);
  if (found.best.empty() && memory < pool.memory_capacity &&
      found.summary.stop_cause == StopCause::kFinished) {
    found = BestPlansOf(smaller, calibration, options);
  }
  RETURN_IF_ERROR(CutStatus(found.summary.stop_cause, kForAllPoints));
  PointFound point;
  if (found.best.empty()) return point;
  AnalyticModel model(ToEstimatorProblem(question.problem), calibration);
  point.best = RankPlan(found.best.front().plan, question.problem, model);
  point.best->estimate.cost_model = fallback;
  return point;
}

namespace {

void WarnOfLevel(double level, std::string_view why, StudyResult& result) {
  result.warnings.push_back(
      fmt::format("pareto_front has no point that leaves {:.0f} % or more of the memory free: {}",
                  100 * level, why));
}

void AddPoint(RankedPlan plan, StudyResult& result) {
  const double level = LevelOf(plan.estimate);
  result.pareto_front.push_back({.free_memory_ratio = level, .plan = std::move(plan)});
}

void NoteLevel(double level, const PointFound& found, StudyResult& result) {
  for (const std::string& warning : found.warnings) {
    if (std::ranges::find(result.warnings, warning) != result.warnings.end()) continue;
    result.warnings.push_back(
        fmt::format("pareto_front, {:.0f} % of the memory free: {}", 100 * level, warning));
  }
}

void AddLevels(const PreparedQuestion& question, SearchOptions options, const StudyControl& control,
               const std::optional<CostModelSource>& fallback, StudyResult& result) {
  options.plan_count = 1;
  options.on_progress = {};  // the counts of the answer's own search are kept
  for (const double level : kFreeMemoryLevels) {
    if (Leaves(result.pareto_front.back().plan.estimate, level)) continue;
    absl::StatusOr<PointFound> found =
        BestWithin(question, {.free_ratio = level}, options, control, fallback);
    if (!found.ok()) {
      WarnOfLevel(level, std::string(found.status().message()), result);
      return;
    }
    if (found->fallback.has_value()) {
      WarnOfLevel(level, found->fallback->reason, result);
      return;
    }
    NoteLevel(level, *found, result);
    if (!found->best.has_value()) return;
    AddPoint(*std::move(found->best), result);
  }
}

}  // namespace

void AddParetoFront(const PreparedQuestion& question, const SearchOptions& options,
                    const StudyControl& control, const std::optional<CostModelSource>& fallback,
                    StudyResult& result) {
  if (!CutStatus(result.search.stop_cause, kForAllPoints).ok()) {
    result.warnings.emplace_back("pareto_front is empty, because the search ended early");
    return;
  }
  AddPoint(*result.model_optimum, result);
  AddLevels(question, options, control, fallback, result);
  if (!question.request.cost_model.has_value() || fallback.has_value()) return;
  // The points found may still dominate one another. A vendor's model may answer differently for
  // less memory, and a search that proves nothing may find a plan there that it missed before.
  result.pareto_front = FrontOf(std::move(result.pareto_front));
  const Seconds fastest = result.pareto_front.front().plan.estimate.step_time;
  const Seconds answered = result.model_optimum->estimate.step_time;
  if (fastest >= answered) return;
  result.warnings.push_back(fmt::format(
      "pareto_front begins with a plan of {:.4g} s, found in a search with less memory, while plan "
      "1 takes {:.4g} s: the main search missed it",
      fastest.count(), answered.count()));
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

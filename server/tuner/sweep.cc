#include "server/tuner/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search_space/status.h"
#include "server/tuner/asked_model.h"
#include "server/tuner/calibrate.h"
#include "server/tuner/infeasible.h"
#include "server/tuner/joined_history.h"
#include "server/tuner/joined_warnings.h"
#include "server/tuner/pareto_front.h"
#include "server/tuner/search_plan.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostPoints = 100;

std::vector<FieldViolation> Check(const std::vector<int>& node_counts,
                                  const std::vector<double>& free_memory_ratios) {
  std::vector<FieldViolation> violations;
  for (std::size_t i = 0; i < node_counts.size(); ++i) {
    if (node_counts[i] >= 1) continue;
    violations.push_back({.field = fmt::format("node_counts[{}]", i),
                          .description = fmt::format("{}; must be >= 1", node_counts[i])});
  }
  for (std::size_t i = 0; i < free_memory_ratios.size(); ++i) {
    const double ratio = free_memory_ratios[i];
    if (ratio >= 0 && ratio < 1) continue;
    violations.push_back({.field = fmt::format("free_memory_ratios[{}]", i),
                          .description = fmt::format("{}; must be >= 0 and < 1", ratio)});
  }
  const std::size_t points = node_counts.size() * free_memory_ratios.size();
  if (points == 0 || points > kMostPoints) {
    violations.push_back(
        {.field = "node_counts",
         .description = fmt::format("{} x {} points; must be 1 to {}", node_counts.size(),
                                    free_memory_ratios.size(), kMostPoints)});
  }
  return violations;
}

bool IsNoWorse(const SweepPoint& a, const SweepPoint& b) {
  return a.best->estimate.step_time <= b.best->estimate.step_time &&
         a.device_count <= b.device_count && a.free_memory_ratio >= b.free_memory_ratio;
}

void MarkFront(std::vector<SweepPoint>& points) {
  for (SweepPoint& point : points) {
    point.is_on_front =
        point.best.has_value() && std::ranges::none_of(points, [&](const SweepPoint& other) {
          return other.best.has_value() && IsNoWorse(other, point) && !IsNoWorse(point, other);
        });
  }
}

absl::StatusOr<SweepPoint> PointOf(const Problem& problem, double free_ratio,
                                   const Calibration& calibration, const SearchOptions& options) {
  SweepPoint point = {.device_count = DeviceCount(problem.cluster),
                      .free_memory_ratio = free_ratio};
  ASSIGN_OR_RETURN(point.best, BestWithin(problem, free_ratio, calibration, options));
  const double tokens =
      static_cast<double>(problem.workload.global_batch_size) * problem.workload.sequence_length;
  if (point.best.has_value()) {
    point.device_seconds_per_token =
        point.device_count * point.best->estimate.step_time.count() / tokens;
  }
  return point;
}

}  // namespace

absl::StatusOr<Sweep> RunSweep(const StudyRequest& request, const std::vector<int>& node_counts,
                               const std::vector<double>& free_memory_ratios,
                               const Knowledge& knowledge, const StudyControl& control) {
  if (const auto violations = Check(node_counts, free_memory_ratios); !violations.empty()) {
    return InvalidFields(violations);
  }
  RETURN_IF_ERROR(RequireExhaustive(request, "a sweep"));
  RETURN_IF_ERROR(RefuseCostModel(request, "a sweep"));
  SearchOptions options = SearchOptionsOf(request, control, Clock::now());
  options.plan_count = 1;
  Sweep sweep;
  std::vector<NamedWarnings> warnings;
  for (const int nodes : node_counts) {
    StudyRequest own = request;
    for (NodePoolRequest& pool : own.question.cluster.pools) pool.node_count = nodes;
    ASSIGN_OR_RETURN(const Problem problem, SearchableProblem(own, knowledge));
    ASSIGN_OR_RETURN(own, WithStoreHistory(std::move(own), problem, knowledge, control.history));
    ASSIGN_OR_RETURN(const LearntCalibration learnt, LearnCalibration(own, problem, knowledge));
    const Calibration& calibration = learnt.calibration;
    warnings.push_back({.name = fmt::format("{} devices", DeviceCount(problem.cluster)),
                        .warnings = WarningsOf(problem, calibration)});
    if (sweep.points.empty()) sweep.applied_defaults = problem.applied_defaults;
    for (const double free_ratio : free_memory_ratios) {
      ASSIGN_OR_RETURN(SweepPoint point, PointOf(problem, free_ratio, calibration, options));
      sweep.points.push_back(std::move(point));
    }
  }
  MarkFront(sweep.points);
  sweep.warnings = JoinedWarnings(warnings);
  return sweep;
}

}  // namespace meshwright

#include "server/tuner/answers/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/answers/joined_warnings.h"
#include "server/tuner/answers/pareto_front.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/joined_history.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/asked_model.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/infeasible.h"
#include "server/tuner/search/search_plan.h"

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

std::string NameOf(const SweepPoint& point) {
  return fmt::format("{} devices at {:g} % of the memory free", point.device_count,
                     100 * point.free_memory_ratio);
}

// A search that proves nothing may have missed what one with less memory has found.
void TakeOverFaster(std::vector<SweepPoint>& points, std::vector<std::string>& warnings) {
  const std::vector<SweepPoint> own = points;
  for (SweepPoint& point : points) {
    for (const SweepPoint& other : own) {
      const bool leaves_more = other.device_count == point.device_count &&
                               other.free_memory_ratio > point.free_memory_ratio;
      if (!leaves_more || !other.best.has_value()) continue;
      if (point.best.has_value() &&
          point.best->estimate.step_time <= other.best->estimate.step_time) {
        continue;
      }
      point.best = other.best;
      point.device_seconds_per_token = other.device_seconds_per_token;
      warnings.push_back(
          fmt::format("{}: the plan of {:g} %, which the point's own search has "
                      "not seen",
                      NameOf(point), 100 * other.free_memory_ratio));
    }
  }
}

// What a sweep is asked with.
struct SweepAsked {
  const StudyRequest& request;
  const std::vector<int>& node_counts;
  const std::vector<double>& free_memory_ratios;
  const Knowledge& knowledge;
  const StudyControl& control;
  const SearchOptions& options;
};

absl::Status WithText(const absl::Status& status, const std::string& text) {
  absl::Status changed(status.code(), text);
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    changed.SetPayload(type, payload);
  });
  return changed;
}

// The failure that ends the sweep, with the point that it came of.
absl::Status Named(const absl::Status& status, const SweepPoint& point) {
  return WithText(status, fmt::format("{}: {}", NameOf(point), std::string(status.message())));
}

// That of the built-in model, with why it was asked.
absl::Status Because(const absl::Status& status, const CostModelSource& fallback) {
  return WithText(status,
                  fmt::format("{}; before, cost model {} gave no answer: {}",
                              std::string(status.message()), fallback.name, fallback.reason));
}

struct SweepRun {
  Sweep sweep = {};
  std::vector<NamedWarnings> warnings = {};
  // The vendor's model gave no answer, which the request allows: the points are not complete.
  std::optional<CostModelSource> fallback = {};
};

// Adds the points of one cluster.
absl::Status AddPoints(const SweepAsked& asked, const Problem& problem, const PointSearch& by,
                       SweepRun& run) {
  const double tokens =
      static_cast<double>(problem.workload.global_batch_size) * problem.workload.sequence_length;
  for (const double free_ratio : asked.free_memory_ratios) {
    SweepPoint point = {.device_count = DeviceCount(problem.cluster),
                        .free_memory_ratio = free_ratio};
    absl::StatusOr<PointFound> found = BestWithin(problem, free_ratio, by);
    if (!found.ok()) return Named(found.status(), point);
    run.fallback = found->fallback;
    if (run.fallback.has_value()) return absl::OkStatus();
    run.warnings.push_back({.name = NameOf(point), .warnings = std::move(found->warnings)});
    point.best = std::move(found->best);
    if (point.best.has_value()) {
      point.device_seconds_per_token =
          point.device_count * point.best->estimate.step_time.count() / tokens;
    }
    run.sweep.points.push_back(std::move(point));
  }
  return absl::OkStatus();
}

// All points by the model that is asked for, or all by the built-in one under `fallback`.
absl::StatusOr<SweepRun> RunBy(const SweepAsked& asked,
                               const std::optional<CostModelSource>& fallback) {
  SweepRun run;
  std::vector<NamedWarnings> warnings;
  for (const int nodes : asked.node_counts) {
    StudyRequest own = asked.request;
    for (NodePoolRequest& pool : own.question.cluster.pools) pool.node_count = nodes;
    ASSIGN_OR_RETURN(const Problem problem, SearchableProblem(own, asked.knowledge));
    ASSIGN_OR_RETURN(
        own, WithStoreHistory(std::move(own), problem, asked.knowledge, asked.control.history));
    ASSIGN_OR_RETURN(const LearntCalibration learnt,
                     LearnCalibration(own, problem, asked.knowledge));
    warnings.push_back({.name = fmt::format("{} devices", DeviceCount(problem.cluster)),
                        .warnings = WarningsOf(problem, learnt.calibration)});
    if (run.sweep.points.empty()) run.sweep.applied_defaults = problem.applied_defaults;
    RETURN_IF_ERROR(AddPoints(asked, problem,
                              {.request = own,
                               .calibration = learnt.calibration,
                               .options = asked.options,
                               .control = asked.control,
                               .fallback = fallback},
                              run));
    if (run.fallback.has_value()) return run;
  }
  run.sweep.warnings = JoinedWarnings(warnings);
  for (std::string& warning : JoinedWarnings(run.warnings)) {
    run.sweep.warnings.push_back(std::move(warning));
  }
  return run;
}

}  // namespace

absl::StatusOr<Sweep> RunSweep(const StudyRequest& request, const std::vector<int>& node_counts,
                               const std::vector<double>& free_memory_ratios,
                               const Knowledge& knowledge, const StudyControl& control) {
  if (const auto violations = Check(node_counts, free_memory_ratios); !violations.empty()) {
    return InvalidFields(violations);
  }
  RETURN_IF_ERROR(RequireExhaustive(request, "a sweep"));
  SearchOptions options = SearchOptionsOf(request, control, Clock::now());
  options.plan_count = 1;
  const SweepAsked asked = {.request = request,
                            .node_counts = node_counts,
                            .free_memory_ratios = free_memory_ratios,
                            .knowledge = knowledge,
                            .control = control,
                            .options = options};
  ASSIGN_OR_RETURN(SweepRun run, RunBy(asked, {}));
  if (const std::optional<CostModelSource> fallback = run.fallback; fallback.has_value()) {
    absl::StatusOr<SweepRun> built_in = RunBy(asked, fallback);
    if (!built_in.ok()) return Because(built_in.status(), *fallback);
    run = *std::move(built_in);
    run.fallback = fallback;
    run.sweep.warnings.push_back(
        fmt::format("cost model {} gave no answer, all points are the built-in model's: {}",
                    fallback->name, fallback->reason));
  }
  if (request.cost_model.has_value() && !run.fallback.has_value()) {
    TakeOverFaster(run.sweep.points, run.sweep.warnings);
  }
  MarkFront(run.sweep.points);
  return std::move(run.sweep);
}

}  // namespace meshwright

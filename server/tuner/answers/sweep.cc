#include "server/tuner/answers/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/answers/joined_warnings.h"
#include "server/tuner/answers/pareto_front.h"
#include "server/tuner/export/export.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/question_search.h"
#include "server/tuner/search/requested_model.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxPoints = 100;

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
  if (points == 0 || points > kMaxPoints) {
    violations.push_back(
        {.field = "node_counts",
         .description = fmt::format("{} x {} points; must be 1 to {}", node_counts.size(),
                                    free_memory_ratios.size(), kMaxPoints)});
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

// Copies faster plans from points with less memory, because a search that proves nothing may have
// missed them.
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
          fmt::format("{}: the plan of the point at {:g} % is faster than the plan that "
                      "this point's own search found",
                      NameOf(point), 100 * other.free_memory_ratio));
    }
  }
}

absl::Status WithText(const absl::Status& status, const std::string& text) {
  absl::Status changed(status.code(), text);
  status.ForEachPayload([&](absl::string_view type, const absl::Cord& payload) {
    changed.SetPayload(type, payload);
  });
  return changed;
}

// Returns the failure that ends the sweep, with the name of the point that caused it.
absl::Status Named(const absl::Status& status, const SweepPoint& point) {
  return WithText(status, fmt::format("{}: {}", NameOf(point), std::string(status.message())));
}

// Returns a failure of the built-in model, with the reason why that model was asked.
absl::Status Because(const absl::Status& status, const CostModelSource& fallback) {
  return WithText(
      status,
      fmt::format("{}; the built-in model was used because cost model {} gave no answer: {}",
                  std::string(status.message()), fallback.name, fallback.reason));
}

struct SweepRun {
  std::vector<SweepPoint> points = {};
  std::vector<NamedWarnings> warnings = {};
  // The model that did not answer. Either the points are incomplete, or all are the built-in
  // model's.
  std::optional<CostModelSource> fallback = {};
};

// Parameters of the search for the points of a sweep.
struct SweepSearch {
  std::vector<double> free_memory_ratios = {};
  SearchOptions options = {};
  std::optional<CostModelSource> fallback = {};
};

// Answers one point. Offload of the optimizer, if it is closed, is opened where nothing else fits.
absl::StatusOr<PointFound> BestAt(const PreparedQuestion& question, double free_ratio,
                                  const SweepSearch& search, const StudyControl& control) {
  const MemoryLimits limits = {.free_ratio = free_ratio,
                               .fit_probability = question.request.choice.min_fit_probability};
  ASSIGN_OR_RETURN(PointFound found,
                   BestWithin(question, limits, search.options, control, search.fallback));
  if (found.best.has_value() || found.fallback.has_value()) return found;
  const std::optional<PreparedQuestion> open = WithOffload(question);
  if (!open.has_value()) return found;
  ASSIGN_OR_RETURN(found, BestWithin(*open, limits, search.options, control, search.fallback));
  if (found.best.has_value()) found.warnings.emplace_back(kOnlyWithOffload);
  return found;
}

// Adds the points of one cluster.
absl::Status AddPoints(const PreparedQuestion& question, const SweepSearch& search,
                       const StudyControl& control, SweepRun& run) {
  const Problem& problem = question.problem;
  const double tokens =
      static_cast<double>(problem.workload.global_batch_size) * problem.workload.sequence_length;
  for (const double free_ratio : search.free_memory_ratios) {
    SweepPoint point = {.device_count = DeviceCount(problem.cluster),
                        .free_memory_ratio = free_ratio};
    absl::StatusOr<PointFound> found = BestAt(question, free_ratio, search, control);
    if (!found.ok()) return Named(found.status(), point);
    if (found->fallback.has_value()) {
      run.fallback = found->fallback;
      return absl::OkStatus();
    }
    point.best = std::move(found->best);
    if (point.best.has_value()) AddExport(problem, *point.best, found->warnings);
    run.warnings.push_back({.name = NameOf(point), .warnings = std::move(found->warnings)});
    if (point.best.has_value()) {
      point.device_seconds_per_token =
          point.device_count * point.best->estimate.step_time.count() / tokens;
    }
    run.points.push_back(std::move(point));
  }
  return absl::OkStatus();
}

// Searches all points by the requested model, or all by the built-in one under a fallback.
absl::StatusOr<SweepRun> SearchPoints(const std::vector<PreparedQuestion>& questions,
                                      const SweepSearch& search, const StudyControl& control) {
  SweepRun run = {.fallback = search.fallback};
  for (const PreparedQuestion& question : questions) {
    const absl::Status added = AddPoints(question, search, control, run);
    if (!added.ok()) return search.fallback ? Because(added, *search.fallback) : added;
    if (run.fallback != search.fallback) return run;
  }
  return run;
}

absl::StatusOr<std::vector<PreparedQuestion>> PrepareSizes(const StudyRequest& request,
                                                           const std::vector<int>& node_counts,
                                                           const Knowledge& knowledge,
                                                           const HistorySource& source) {
  std::vector<PreparedQuestion> questions;
  for (const int nodes : node_counts) {
    StudyRequest own = request;
    own.baseline.reset();  // a sweep has none, and it might be illegal for another size
    for (NodePoolRequest& pool : own.question.cluster.pools) pool.node_count = nodes;
    ASSIGN_OR_RETURN(ResolvedStudy study, ResolveStudy(std::move(own), knowledge));
    ASSIGN_OR_RETURN(PreparedQuestion question, PrepareSearch(std::move(study), knowledge, source));
    question.runs = {};  // frees memory; they are not needed any more
    questions.push_back(std::move(question));
  }
  return questions;
}

std::vector<std::string> SweepWarnings(const std::vector<PreparedQuestion>& questions,
                                       const SweepRun& run) {
  std::vector<NamedWarnings> named;
  named.reserve(questions.size());
  for (const auto& [request, problem, baseline, runs, learnt] : questions) {
    named.push_back({.name = fmt::format("{} devices", DeviceCount(problem.cluster)),
                     .warnings = WarningsOf(problem, learnt.calibration)});
  }
  std::vector<std::string> warnings = JoinedWarnings(named);
  std::ranges::move(JoinedWarnings(run.warnings), std::back_inserter(warnings));
  if (run.fallback.has_value()) {
    warnings.push_back(
        fmt::format("cost model {} gave no answer, all points are the built-in model's: {}",
                    run.fallback->name, run.fallback->reason));
  }
  return warnings;
}

}  // namespace

absl::StatusOr<Sweep> RunSweep(const StudyRequest& request, const std::vector<int>& node_counts,
                               const std::vector<double>& free_memory_ratios,
                               const Knowledge& knowledge, const StudyControl& control) {
  if (const auto violations = Check(node_counts, free_memory_ratios); !violations.empty()) {
    return InvalidFields(violations);
  }
  RETURN_IF_ERROR(RequireExhaustive(request, "a sweep"));
  SweepSearch search = {.free_memory_ratios = free_memory_ratios,
                        .options = SearchOptionsOf(request, control, Clock::now())};
  search.options.plan_count = 1;
  ASSIGN_OR_RETURN(const std::vector<PreparedQuestion> questions,
                   PrepareSizes(request, node_counts, knowledge, control.history));
  ASSIGN_OR_RETURN(SweepRun run, RunByOneModel([&](const std::optional<CostModelSource>& fallback) {
                     search.fallback = fallback;
                     return SearchPoints(questions, search, control);
                   }));
  Sweep sweep = {.points = std::move(run.points),
                 .applied_defaults = questions.front().problem.applied_defaults,
                 .warnings = SweepWarnings(questions, run)};
  if (request.cost_model.has_value() && !run.fallback.has_value()) {
    TakeOverFaster(sweep.points, sweep.warnings);
  }
  MarkFront(sweep.points);
  return sweep;
}

}  // namespace meshwright

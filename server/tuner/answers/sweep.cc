#include "server/tuner/answers/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>

#include "estimator/model/analytic_model.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "server/tuner/answers/joined_notes.h"
#include "server/tuner/answers/pareto_front.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/choice/switches.h"
#include "server/tuner/export/export.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/run_cost.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/question/training_run.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/question_search.h"
#include "server/tuner/search/requested_model.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMaxPoints = 100;

// Names a field of a cluster as the request does.
std::string FieldOf(std::size_t cluster_index, std::string_view field) {
  if (cluster_index == 0) return std::string(field);
  return fmt::format("clusters[{}].{}", cluster_index - 1, field);
}

std::vector<FieldViolation> Check(const SweepRange& range) {
  std::vector<FieldViolation> violations;
  std::size_t sizes = 0;
  for (std::size_t c = 0; c < range.clusters.size(); ++c) {
    const std::vector<int>& node_counts = range.clusters[c].node_counts;
    sizes += node_counts.size();
    for (std::size_t i = 0; i < node_counts.size(); ++i) {
      if (node_counts[i] >= 1) continue;
      violations.push_back({.field = FieldOf(c, fmt::format("node_counts[{}]", i)),
                            .description = fmt::format("{}; must be >= 1", node_counts[i])});
    }
  }
  for (std::size_t i = 0; i < range.free_memory_ratios.size(); ++i) {
    const double ratio = range.free_memory_ratios[i];
    if (ratio >= 0 && ratio < 1) continue;
    violations.push_back({.field = fmt::format("free_memory_ratios[{}]", i),
                          .description = fmt::format("{}; must be >= 0 and < 1", ratio)});
  }
  const std::size_t points = sizes * range.free_memory_ratios.size();
  if (points == 0 || points > kMaxPoints) {
    violations.push_back({.field = "node_counts",
                          .description = fmt::format("{} x {} points; must be 1 to {}", sizes,
                                                     range.free_memory_ratios.size(), kMaxPoints)});
  }
  return violations;
}

// Returns the plan of a point that is to be launched.
const RankedPlan& PlanOf(const SweepPoint& point) {
  return point.launch.has_value() ? *point.launch : *point.best;
}

bool IsNoWorse(const SweepPoint& a, const SweepPoint& b) {
  return a.cluster_index == b.cluster_index &&
         PlanOf(a).estimate.step_time <= PlanOf(b).estimate.step_time &&
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

// Names the size of a cluster; the cluster too if there are several.
std::string NameOf(const Problem& problem, bool has_others) {
  const std::string size = fmt::format("{} devices", DeviceCount(problem.cluster));
  return has_others ? fmt::format("{} of {}", size, problem.cluster.name) : size;
}

std::string NameOf(const SweepPoint& point) {
  const std::string where =
      point.cluster_index == 0 ? "" : fmt::format(" of {}", point.cluster_name);
  return fmt::format("{} devices{} at {:g} % of the memory free", point.device_count, where,
                     100 * point.free_memory_ratio);
}

// Copies faster plans from points with less memory, because a search that proves nothing may have
// missed them.
void TakeOverFaster(std::vector<SweepPoint>& points, std::vector<std::string>& warnings) {
  const std::vector<SweepPoint> own = points;
  for (SweepPoint& point : points) {
    for (const SweepPoint& other : own) {
      const bool leaves_more = other.cluster_index == point.cluster_index &&
                               other.device_count == point.device_count &&
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
  bool wants_launch = false;  // the plan that `tune` would launch, by the built-in model
  Clock::time_point start = {};
};

// A question on one size of one cluster.
struct SizedQuestion {
  int cluster_index = 0;
  PreparedQuestion question = {};
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

// Returns the plan that an answer to the question recommends to launch if so much of each device's
// memory stays free; nullopt if none fits. Its reason is that of the answer. Adds a warning if its
// search was cut.
absl::StatusOr<std::optional<RankedPlan>> LaunchedPlan(const PreparedQuestion& question,
                                                       double free_ratio, const SweepSearch& search,
                                                       const StudyControl& control,
                                                       std::vector<std::string>& warnings) {
  PreparedQuestion asked = question;
  Bytes& memory = asked.problem.cluster.pools.front().memory_capacity;
  memory = Scale(memory, 1 - free_ratio);
  if (asked.request.deadline.has_value()) {  // of the whole sweep
    *asked.request.deadline -= Seconds(Clock::now() - search.start);
  }
  ASSIGN_OR_RETURN(StudyAnswer answer, AnswerQuestion(std::move(asked), control));
  auto* const result = std::get_if<StudyResult>(&answer);
  if (result == nullptr || result->plans.empty()) return std::nullopt;
  if (!result->search.complete) {
    warnings.emplace_back("the search for the plan to launch ended early; it is the best so far");
  }
  RankedPlan plan = std::move(result->plans.front());
  if (result->recommendation.has_value()) plan.reason = result->recommendation->reason;
  if (free_ratio > 0) {  // states the full memory
    const Problem whole = WithSettings(question.problem, plan.settings);
    AnalyticModel model(ToEstimatorProblem(whole), question.learnt.calibration);
    plan.estimate = RankPlan(plan.plan, whole, model).estimate;
  }
  return plan;
}

// Adds the points of one size of a cluster.
absl::Status AddPoints(const SizedQuestion& sized, const SweepSearch& search,
                       const StudyControl& control, SweepRun& run) {
  const PreparedQuestion& question = sized.question;
  const Problem& problem = question.problem;
  const std::optional<TrainingRun>& training = question.request.run;
  const double tokens =
      static_cast<double>(problem.workload.global_batch_size) * problem.workload.sequence_length;
  for (const double free_ratio : search.free_memory_ratios) {
    SweepPoint point = {.cluster_index = sized.cluster_index,
                        .cluster_name = problem.cluster.name,
                        .chip = problem.cluster.pools.front().chip.id,
                        .device_count = DeviceCount(problem.cluster),
                        .free_memory_ratio = free_ratio};
    absl::StatusOr<PointFound> found = BestAt(question, free_ratio, search, control);
    if (!found.ok()) return Named(found.status(), point);
    if (found->fallback.has_value()) {
      run.fallback = found->fallback;
      return absl::OkStatus();
    }
    point.best = std::move(found->best);
    if (point.best.has_value()) {
      AddExport(problem, *point.best, found->warnings);
      if (training) point.best->run = RunCostOf(*training, problem, point.best->estimate);
      if (search.wants_launch) {
        auto launch = LaunchedPlan(question, free_ratio, search, control, found->warnings);
        if (!launch.ok()) return Named(launch.status(), point);
        point.launch = *std::move(launch);
      }
    }
    run.warnings.push_back({.name = NameOf(point), .warnings = std::move(found->warnings)});
    if (point.best.has_value()) {
      point.device_seconds_per_token =
          point.device_count * PlanOf(point).estimate.step_time.count() / tokens;
    }
    run.points.push_back(std::move(point));
  }
  return absl::OkStatus();
}

// Searches all points by the requested model, or all by the built-in one under a fallback.
absl::StatusOr<SweepRun> SearchPoints(const std::vector<SizedQuestion>& questions,
                                      const SweepSearch& search, const StudyControl& control) {
  SweepRun run = {.fallback = search.fallback};
  for (const SizedQuestion& question : questions) {
    const absl::Status added = AddPoints(question, search, control, run);
    if (!added.ok()) return search.fallback ? Because(added, *search.fallback) : added;
    if (run.fallback != search.fallback) return run;
  }
  return run;
}

// Returns a status whose fields of the cluster are named as fields of the sweep's.
absl::Status OfCluster(const absl::Status& status, std::size_t cluster_index) {
  std::vector<FieldViolation> violations = FieldViolations(status);
  if (cluster_index == 0 || violations.empty()) return status;
  constexpr std::string_view kOwn = "cluster";
  for (FieldViolation& violation : violations) {
    if (!violation.field.starts_with(kOwn)) continue;
    violation.field.replace(0, kOwn.size(), fmt::format("clusters[{}]", cluster_index - 1));
  }
  return InvalidFields(violations);
}

absl::StatusOr<std::vector<SizedQuestion>> PrepareSizes(const StudyRequest& request,
                                                        const SweepRange& range,
                                                        const Knowledge& knowledge,
                                                        const HistorySource& source) {
  std::vector<SizedQuestion> questions;
  for (std::size_t c = 0; c < range.clusters.size(); ++c) {
    for (const int nodes : range.clusters[c].node_counts) {
      StudyRequest own = request;
      own.baseline.reset();  // a sweep has none, and it might be illegal for another size
      own.question.cluster = range.clusters[c].cluster;
      for (NodePoolRequest& pool : own.question.cluster.pools) pool.node_count = nodes;
      absl::StatusOr<ResolvedStudy> study = ResolveStudy(std::move(own), knowledge);
      if (!study.ok()) return OfCluster(study.status(), c);
      if (const absl::Status one = RequireOnePool(study->problem, "a sweep"); !one.ok()) {
        return OfCluster(one, c);
      }
      ASSIGN_OR_RETURN(PreparedQuestion question,
                       PrepareSearch(*std::move(study), knowledge, source));
      question.runs = {};  // frees memory; they are not needed any more
      questions.push_back({.cluster_index = static_cast<int>(c), .question = std::move(question)});
    }
  }
  return questions;
}

std::vector<std::string> SweepWarnings(const std::vector<SizedQuestion>& questions,
                                       const SweepRun& run) {
  std::vector<NamedWarnings> named;
  named.reserve(questions.size());
  const bool has_others = questions.back().cluster_index > 0;
  for (const auto& [cluster_index, question] : questions) {
    named.push_back({.name = NameOf(question.problem, has_others),
                     .warnings = WarningsOf(question.problem, question.learnt.calibration)});
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

std::string DaysOf(const RunCost& run) {
  return fmt::format("{:.3g} days ({:.3g} to {:.3g})", run.days, run.low_days, run.high_days);
}

std::string PlaceOf(const SweepPoint& point) {
  return fmt::format("{} devices of {}", point.device_count, point.cluster_name);
}

// Recommends the smallest point on which the run ends in time. Points whose plan rests on the
// assumed cost of a host, or may well not fit, come last.
void RecommendPoint(const StudyRequest& request, Sweep& sweep) {
  if (!request.run.has_value() || !request.run->max_days.has_value()) return;
  const double max_days = *request.run->max_days;
  std::vector<std::size_t> answered;
  std::vector<std::size_t> in_time;
  for (std::size_t i = 0; i < sweep.points.size(); ++i) {
    if (!sweep.points[i].best.has_value()) continue;
    answered.push_back(i);
    if (PlanOf(sweep.points[i]).run->is_within_max_days.value_or(false)) in_time.push_back(i);
  }
  const auto run_of = [&](std::size_t i) -> const RunCost& { return *PlanOf(sweep.points[i]).run; };
  if (in_time.empty()) {
    sweep.reason = fmt::format("the run ends within {:g} days on no size that was tried", max_days);
    if (answered.empty()) return;
    const std::size_t fastest =
        *std::ranges::min_element(answered, {}, [&](std::size_t i) { return run_of(i).days; });
    sweep.reason += fmt::format("; the shortest time is {}, on {}", DaysOf(run_of(fastest)),
                                PlaceOf(sweep.points[fastest]));
    return;
  }
  const bool by_price =
      std::ranges::all_of(in_time, [&](std::size_t i) { return run_of(i).price.has_value(); });
  const auto rank = [&](std::size_t i) {
    const RankedPlan& plan = PlanOf(sweep.points[i]);
    const bool is_unsure = plan.estimate.fit_probability < request.choice.min_fit_probability;
    const bool is_assumed = plan.plan.optimizer_offload_ratio > 0;
    return std::tuple(is_unsure, is_assumed, by_price ? *run_of(i).price : 0.0,
                      sweep.points[i].device_count, run_of(i).days);
  };
  const std::size_t first = *std::ranges::min_element(in_time, {}, rank);
  sweep.recommended = first;
  sweep.reason = fmt::format(
      "{}: of the sizes that were tried, it is the {} on which the run ends within {:g} days; the "
      "run takes {}",
      PlaceOf(sweep.points[first]), by_price ? "cheapest" : "smallest", max_days,
      DaysOf(run_of(first)));
}

}  // namespace

std::vector<int> SharesOf(int node_count) {
  std::vector<int> shares;
  for (std::int64_t power = 1; power < node_count; power *= 2) {
    shares.push_back(static_cast<int>(power));
    if (power > 1 && power * 3 / 2 < node_count) shares.push_back(static_cast<int>(power * 3 / 2));
  }
  shares.push_back(node_count);
  return shares;
}

SweepRange OwnRange(const StudyRequest& request, std::vector<int> node_counts,
                    std::vector<double> free_memory_ratios) {
  return {
      .clusters = {{.cluster = request.question.cluster, .node_counts = std::move(node_counts)}},
      .free_memory_ratios = std::move(free_memory_ratios)};
}

absl::StatusOr<Sweep> RunSweep(const StudyRequest& request, const SweepRange& range,
                               const Knowledge& knowledge, const StudyControl& control) {
  if (const auto violations = Check(range); !violations.empty()) {
    return InvalidFields(violations);
  }
  RETURN_IF_ERROR(RequireExhaustive(request, "a sweep"));
  const Clock::time_point start = Clock::now();
  SweepSearch search = {.free_memory_ratios = range.free_memory_ratios,
                        .options = SearchOptionsOf(request, control, start),
                        .wants_launch = !request.cost_model.has_value(),
                        .start = start};
  search.options.plan_count = 1;
  ASSIGN_OR_RETURN(const std::vector<SizedQuestion> questions,
                   PrepareSizes(request, range, knowledge, control.history));
  ASSIGN_OR_RETURN(SweepRun run, RunByOneModel([&](const std::optional<CostModelSource>& fallback) {
                     search.fallback = fallback;
                     return SearchPoints(questions, search, control);
                   }));
  Sweep sweep = {.points = std::move(run.points),
                 .applied_defaults = questions.front().question.problem.applied_defaults,
                 .warnings = SweepWarnings(questions, run)};
  if (request.cost_model.has_value() && !run.fallback.has_value()) {
    TakeOverFaster(sweep.points, sweep.warnings);
  }
  MarkFront(sweep.points);
  RecommendPoint(request, sweep);
  return sweep;
}

}  // namespace meshwright

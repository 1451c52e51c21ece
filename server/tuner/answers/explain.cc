#include "server/tuner/answers/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "pruner/rules/history.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/joined_history.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/asked_model.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/infeasible.h"
#include "server/tuner/search/model_search.h"
#include "server/tuner/search/search_plan.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kChange = 0.1;
constexpr double kPlentyOfMemory = 1e6;  // times the device's
constexpr int kNamedTerms = 3;

struct Resource {
  std::string_view name;
  void (*scale)(NodePool& pool, double factor);
};

constexpr Resource kResources[] = {
    {"compute",
     [](NodePool& pool, double factor) {
       for (auto& [precision, peak] : pool.chip.peak) peak.rate *= factor;
     }},
    {"memory_bandwidth",
     [](NodePool& pool, double factor) { pool.chip.memory_bandwidth.rate *= factor; }},
    {"memory_capacity",
     [](NodePool& pool, double factor) {
       pool.memory_capacity = Scale(pool.memory_capacity, factor);
     }},
    {"intra_node_bandwidth",
     [](NodePool& pool, double factor) { pool.intra_node.bandwidth.rate *= factor; }},
    {"inter_node_bandwidth",
     [](NodePool& pool, double factor) { pool.inter_node.nic_bandwidth.rate *= factor; }},
};

Problem Changed(Problem problem, const Resource& resource, double factor) {
  for (NodePool& pool : problem.cluster.pools) resource.scale(pool, factor);
  return problem;
}

const Resource& Memory() { return kResources[2]; }

// The best plans of a problem that may not be the user's own.
class Searcher {
 public:
  Searcher(const Calibration& calibration, SearchOptions options)
      : calibration_(calibration), options_(std::move(options)) {}

  // Nothing when no plan fits. CANCELLED or DEADLINE_EXCEEDED when the search was cut: half an
  // explanation would mislead.
  absl::StatusOr<std::vector<RankedPlan>> Best(const Problem& problem, std::size_t count) {
    options_.plan_count = count;
    const SearchFound found =
        SearchExhaustively(SpaceOf(problem), ViewOf(problem), calibration_, options_);
    if (!found.summary.complete) {
      return found.summary.stop_cause == StopCause::kCancelled
                 ? absl::CancelledError("cancelled")
                 : absl::DeadlineExceededError("the deadline leaves no time to explain");
    }
    AnalyticModel model(ViewOf(problem), calibration_);
    std::vector<RankedPlan> plans;
    for (const RecomputeChoice& choice : found.best) {
      plans.push_back(RankPlan(choice.plan, problem, model));
    }
    return plans;
  }

  [[nodiscard]] RankedPlan Of(const ParallelPlan& plan, const Problem& problem) const {
    AnalyticModel model(ViewOf(problem), calibration_);
    return RankPlan(plan, problem, model);
  }

 private:
  Calibration calibration_;
  SearchOptions options_;
};

// "pipeline_bubble +1.2 s, tensor_parallel -0.3 s": the largest differences of `plan` from `best`.
std::string Differences(const Estimate& plan, const Estimate& best) {
  std::array<std::pair<Seconds, TimeCause>, kTimeCauseCount> terms;
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    terms[i] = {plan.breakdown[i] - best.breakdown[i], static_cast<TimeCause>(i)};
  }
  std::ranges::stable_sort(terms, [](const auto& a, const auto& b) {
    return std::abs(a.first.count()) > std::abs(b.first.count());
  });
  std::string text;
  for (int i = 0; i < kNamedTerms; ++i) {
    const auto& [difference, cause] = terms[static_cast<std::size_t>(i)];
    if (difference == Seconds(0)) break;
    text +=
        fmt::format("{}{} {:+.4g} s", text.empty() ? "" : ", ", Word(cause), difference.count());
  }
  return text;
}

std::string SlowerBy(const Estimate& plan, const Estimate& best) {
  if (plan.step_time == best.step_time) {
    return fmt::format("as fast, with {:.1f} instead of {:.1f} GiB in use",
                       plan.reserved_memory / GiB(1), best.reserved_memory / GiB(1));
  }
  return fmt::format("{:.2f} % slower: {}", 100 * (plan.step_time / best.step_time - 1),
                     Differences(plan, best));
}

std::string TooLarge(const Estimate& plan) {
  return fmt::format("needs {:.1f} GiB of {:.1f} GiB", plan.reserved_memory / GiB(1),
                     plan.memory_capacity / GiB(1));
}

// The fastest plan of `anywhere`, as it is on the devices that there are, when memory or the
// history rules it out.
absl::Status AddRuledOut(const Problem& problem, const Problem& anywhere,
                         const Calibration& calibration, SearchOptions options,
                         Explanation& answer) {
  Calibration no_failures = calibration;
  no_failures.out_of_memory.reset();
  no_failures.failed.clear();
  Searcher searcher(no_failures, std::move(options));
  ASSIGN_OR_RETURN(const std::vector<RankedPlan> fastest, searcher.Best(anywhere, 1));
  if (fastest.empty()) return absl::OkStatus();
  AnalyticModel model(ViewOf(problem), calibration);
  const RankedPlan here = RankPlan(fastest.front().plan, problem, model);
  const Estimate& estimate = here.estimate;
  const auto by_history = WhyRuledOut(here.plan, calibration, ViewOf(problem));
  if ((estimate.fits && !by_history.has_value()) || here.plan == answer.plan.plan) {
    return absl::OkStatus();
  }
  const bool is_known = std::ranges::any_of(
      answer.near_misses, [&](const NearMiss& miss) { return miss.plan.plan == here.plan; });
  if (is_known) return absl::OkStatus();
  const double faster = 100 * (1 - estimate.step_time / answer.best.estimate.step_time);
  answer.near_misses.insert(
      answer.near_misses.begin(),
      {.plan = here,
       .reason = fmt::format("{:.2f} % faster, but {}", faster,
                             by_history.has_value() ? *by_history : TooLarge(estimate))});
  return absl::OkStatus();
}

absl::Status AddSensitivities(const Problem& problem, Searcher& searcher, Explanation& answer) {
  Seconds most_gained(0);
  for (const Resource& resource : kResources) {
    for (const double change : {kChange, -kChange}) {
      const Problem changed = Changed(problem, resource, 1 + change);
      ASSIGN_OR_RETURN(std::vector<RankedPlan> best, searcher.Best(changed, 1));
      Sensitivity sensitivity = {.resource = resource.name,
                                 .change = change,
                                 .same = searcher.Of(answer.plan.plan, changed)};
      if (!best.empty()) sensitivity.best = std::move(best.front());
      if (change > 0 && sensitivity.best.has_value()) {
        const Seconds gained =
            answer.best.estimate.step_time - sensitivity.best->estimate.step_time;
        if (gained > most_gained) {
          most_gained = gained;
          answer.binding = resource.name;
        }
      }
      answer.sensitivities.push_back(std::move(sensitivity));
    }
  }
  return absl::OkStatus();
}

absl::Status NothingFits() {
  return WithReason(absl::FailedPreconditionError("no plan fits; `tune` says what would help"),
                    kNoFeasiblePlanReason);
}

// The model's own words on the plan that is explained. That it has none is no failure.
absl::Status AddModelLines(const StudyRequest& request, const Problem& problem,
                           const StudyControl& control, Explanation& answer) {
  const CostModelSource& source = *answer.plan.estimate.cost_model;
  if (source.is_fallback) return absl::OkStatus();  // its estimate says why
  const auto note = [&](const absl::Status& status) {
    answer.warnings.push_back(absl::IsUnimplemented(status)
                                  ? fmt::format("cost model {} explains no plans", source.name)
                                  : fmt::format("cost model {} did not explain the plan: {}",
                                                source.name, std::string(status.message())));
  };
  const auto asked =
      OpenAskedModel(request.cost_model, problem, control.open_model, control.cancel);
  if (absl::IsCancelled(asked.status())) return asked.status();
  if (!asked.ok() || asked->model == nullptr) {
    note(asked.ok() ? absl::UnavailableError(asked->fallback->reason) : asked.status());
    return absl::OkStatus();
  }
  auto lines = asked->model->Explain(AskedForm(answer.plan.plan, problem), control.cancel);
  if (absl::IsCancelled(lines.status())) return lines.status();
  if (lines.ok()) {
    answer.model_lines = *std::move(lines);
  } else {
    note(lines.status());
  }
  return absl::OkStatus();
}

// The study's answer, explained as far as the vendor's model can.
absl::StatusOr<Explanation> ExplainByModel(const StudyRequest& request, const Knowledge& knowledge,
                                           const StudyControl& control) {
  ASSIGN_OR_RETURN(const Problem problem, SearchableProblem(request, knowledge));
  ASSIGN_OR_RETURN(StudyAnswer studied, RunStudy(request, knowledge, control));
  auto* const result = std::get_if<StudyResult>(&studied);
  if (result == nullptr) return NothingFits();
  const StopCause cause = result->search.stop_cause;
  if (cause == StopCause::kCancelled) return absl::CancelledError("cancelled");
  if (cause == StopCause::kDeadline) {
    return absl::DeadlineExceededError("the deadline leaves no time to explain");
  }
  for (RankedPlan& plan : result->plans) plan.exports.clear();
  Explanation answer = {.plan = result->plans.front(), .best = result->plans.front()};
  if (request.baseline.has_value()) answer.plan = *result->baseline;
  for (std::size_t i = 1; i < result->plans.size(); ++i) {
    RankedPlan& other = result->plans[i];
    std::string reason = SlowerBy(other.estimate, answer.best.estimate);
    answer.near_misses.push_back({.plan = std::move(other), .reason = std::move(reason)});
  }
  answer.applied_defaults = std::move(result->applied_defaults);
  answer.calibration = std::move(result->calibration);
  answer.warnings = std::move(result->warnings);
  answer.warnings.emplace_back(
      "what more or less of a resource would change, and what more memory would allow, is the "
      "built-in model's alone: explain without cost_model shows it");
  RETURN_IF_ERROR(AddModelLines(request, problem, control, answer));
  return answer;
}

}  // namespace

absl::StatusOr<Explanation> Explain(const StudyRequest& request, const Knowledge& knowledge,
                                    const StudyControl& control) {
  RETURN_IF_ERROR(RequireExhaustive(request, "explain"));
  if (request.cost_model.has_value()) return ExplainByModel(request, knowledge, control);
  ASSIGN_OR_RETURN(const Problem problem, SearchableProblem(request, knowledge));
  ASSIGN_OR_RETURN(const StudyRequest asked,
                   WithStoreHistory(request, problem, knowledge, control.history));
  ASSIGN_OR_RETURN(const LearntCalibration learnt, LearnCalibration(asked, problem, knowledge));
  const Calibration& calibration = learnt.calibration;
  const SearchOptions options = SearchOptionsOf(request, control, Clock::now());
  Searcher searcher(calibration, options);
  ASSIGN_OR_RETURN(const std::vector<RankedPlan> ranked,
                   searcher.Best(problem, static_cast<std::size_t>(request.plan_count)));
  if (ranked.empty()) return NothingFits();
  Explanation answer = {.plan = ranked.front(), .best = ranked.front()};
  answer.applied_defaults = problem.applied_defaults;
  answer.warnings = WarningsOf(problem, calibration);
  answer.calibration = learnt.report;
  if (request.baseline.has_value()) {
    ASSIGN_OR_RETURN(const ResolvedPlan resolved,
                     ResolvePlan(*request.baseline, problem, "baseline"));
    answer.plan = searcher.Of(resolved.plan, problem);
    answer.applied_defaults.insert(answer.applied_defaults.end(), resolved.applied_defaults.begin(),
                                   resolved.applied_defaults.end());
  }
  for (std::size_t i = 1; i < ranked.size(); ++i) {
    const RankedPlan& other = ranked[i];
    answer.near_misses.push_back(
        {.plan = other, .reason = SlowerBy(other.estimate, answer.best.estimate)});
  }
  if (calibration.out_of_memory.has_value() || !calibration.failed.empty()) {
    RETURN_IF_ERROR(AddRuledOut(problem, problem, calibration, options, answer));
  }
  RETURN_IF_ERROR(AddRuledOut(problem, Changed(problem, Memory(), kPlentyOfMemory), calibration,
                              options, answer));
  RETURN_IF_ERROR(AddSensitivities(problem, searcher, answer));
  return answer;
}

}  // namespace meshwright

#include "server/tuner/answers/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "estimator/learning/calibration.h"
#include "estimator/model/analytic_model.h"
#include "pruner/rules/history.h"
#include "pruner/rules/recompute.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload_settings.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/answers/switched.h"
#include "server/tuner/learning/calibrate.h"
#include "server/tuner/learning/prepared_question.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/exhaustive.h"
#include "server/tuner/search/infeasible.h"
#include "server/tuner/search/model_search.h"
#include "server/tuner/search/question_search.h"
#include "server/tuner/search/requested_model.h"
#include "server/tuner/search/search_plan.h"
#include "server/tuner/search/stop_status.h"

namespace meshwright {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kChange = 0.1;
constexpr double kPlentyOfMemory = 1e6;  // multiple of the device's memory
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

const Resource& Memory() { return kResources[2]; }

constexpr std::string_view kToExplain = "to explain";

// Limits of the searches of an explanation.
struct ExplainLimits {
  SearchOptions options = {};
  double fit_probability = 0;  // of the plans that count
};

// The question that is explained, as it is or with another amount of a resource. Its plans have the
// switches of the framework that the answer turns on (docs/choice/switches.md).
class Variant {
 public:
  Variant(PreparedQuestion question, const std::vector<WorkloadSetting>& settings)
      : question_(std::move(question)), plans_(question_, settings) {}

  [[nodiscard]] const PreparedQuestion& question() const { return question_; }

  // Returns the fastest plan, or nullopt if none fits. Returns CANCELLED or DEADLINE_EXCEEDED if
  // the search was cut, because half an explanation would mislead.
  absl::StatusOr<std::optional<RankedPlan>> Fastest(const Calibration& calibration,
                                                    const ExplainLimits& limits) {
    const SearchFound found =
        BestPlansOf(WithSureMemory(plans_.question().problem, limits.fit_probability, calibration),
                    calibration, limits.options);
    RETURN_IF_ERROR(CutStatus(found.summary.stop_cause, kToExplain));
    if (found.best.empty()) return std::nullopt;
    return plans_.Fastest(found.best.front().plan);
  }
  absl::StatusOr<std::optional<RankedPlan>> Fastest(const ExplainLimits& limits) {
    return Fastest(question_.learnt.calibration, limits);
  }

  // Returns the plan with the faster of the framework's own settings and those of the answer.
  RankedPlan FasterOf(const ParallelPlan& plan) { return plans_.Fastest(plan); }

  // Returns the plan of `ranked` with its settings.
  RankedPlan Again(const RankedPlan& ranked) {
    return ranked.settings.empty() ? plans_.Plain(ranked.plan) : plans_.Fastest(ranked.plan);
  }

 private:
  PreparedQuestion question_;
  SwitchedPlans plans_;
};

PreparedQuestion Changed(PreparedQuestion question, const Resource& resource, double factor) {
  for (NodePool& pool : question.problem.cluster.pools) resource.scale(pool, factor);
  return question;
}

// Returns the largest differences of `plan` from `best`: "pipeline_bubble +1.2 s, tensor_parallel
// -0.3 s".
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

std::string LostBy(const Estimate& plan, const Estimate& best) {
  const double slower = plan.step_time / best.step_time - 1;
  if (plan.fit_probability < best.fit_probability && slower < 0) {
    return fmt::format("{:.2f} % faster, but fits with a probability of {:.0f} %", -100 * slower,
                       100 * plan.fit_probability);
  }
  if (plan.step_time == best.step_time) {
    return fmt::format("as fast, with {:.1f} instead of {:.1f} GiB in use",
                       plan.reserved_memory / GiB(1), best.reserved_memory / GiB(1));
  }
  return fmt::format("{:.2f} % {}: {}", 100 * std::abs(slower), slower > 0 ? "slower" : "faster",
                     Differences(plan, best));
}

std::string TooLarge(const Estimate& plan) {
  return fmt::format("needs {:.1f} GiB of memory, of which a device has {:.1f} GiB",
                     plan.reserved_memory / GiB(1), plan.memory_capacity / GiB(1));
}

// Adds the fastest plan of `anywhere` with its estimate on the existing devices, if memory or the
// history rules it out.
absl::Status AddRuledOut(Variant& own, Variant& anywhere, const SearchOptions& options,
                         Explanation& answer) {
  const Problem& problem = own.question().problem;
  const Calibration& calibration = own.question().learnt.calibration;
  Calibration no_failures = calibration;
  no_failures.out_of_memory.reset();
  no_failures.failed.clear();
  ASSIGN_OR_RETURN(const std::optional<RankedPlan> fastest,
                   anywhere.Fastest(no_failures, {.options = options}));
  if (!fastest.has_value()) return absl::OkStatus();
  const RankedPlan here = own.FasterOf(fastest->plan);
  const Estimate& estimate = here.estimate;
  const auto by_history = WhyRuledOut(here.plan, calibration, ToEstimatorProblem(problem));
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

absl::Status AddSensitivities(const PreparedQuestion& question,
                              const std::vector<WorkloadSetting>& settings,
                              const ExplainLimits& limits, Explanation& answer) {
  Seconds most_gained(0);
  for (const Resource& resource : kResources) {
    for (const double change : {kChange, -kChange}) {
      Variant changed(Changed(question, resource, 1 + change), settings);
      ASSIGN_OR_RETURN(std::optional<RankedPlan> best, changed.Fastest(limits));
      Sensitivity sensitivity = {.resource = resource.name,
                                 .change = change,
                                 .same = changed.Again(answer.plan),
                                 .best = std::move(best)};
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

// Adds the model's own words about the explained plan. It is no failure if it has none.
absl::Status AddModelLines(const PreparedQuestion& question, const StudyControl& control,
                           Explanation& answer) {
  const CostModelSource& source = *answer.plan.estimate.cost_model;
  if (source.is_fallback) return absl::OkStatus();  // its estimate says why
  const auto note = [&](const absl::Status& status) {
    answer.warnings.push_back(absl::IsUnimplemented(status)
                                  ? fmt::format("cost model {} explains no plans", source.name)
                                  : fmt::format("cost model {} did not explain the plan: {}",
                                                source.name, std::string(status.message())));
  };
  const auto asked = OpenRequestedModel(question.request.cost_model, question.problem,
                                        control.open_model, control.cancel);
  if (absl::IsCancelled(asked.status())) return asked.status();
  if (!asked.ok() || asked->model == nullptr) {
    note(asked.ok() ? absl::UnavailableError(asked->fallback->reason) : asked.status());
    return absl::OkStatus();
  }
  auto lines =
      asked->model->Explain(WithUnevenSplit(answer.plan.plan, question.problem), control.cancel);
  if (absl::IsCancelled(lines.status())) return lines.status();
  if (lines.ok()) {
    answer.model_lines = *std::move(lines);
  } else {
    note(lines.status());
  }
  return absl::OkStatus();
}

// Adds a plan that lost, once.
void AddNearMiss(const RankedPlan& plan, Explanation& answer) {
  const auto is_same = [&](const RankedPlan& other) {
    return other.plan == plan.plan && other.settings == plan.settings;
  };
  if (is_same(answer.plan) || is_same(answer.best)) return;
  if (std::ranges::any_of(answer.near_misses, is_same, &NearMiss::plan)) return;
  answer.near_misses.push_back(
      {.plan = plan, .reason = LostBy(plan.estimate, answer.best.estimate)});
}

// Finds the fastest plan, and compares the explained one by the built-in model.
absl::Status AddComparisons(PreparedQuestion question, const StudyResult& result,
                            const SearchOptions& options, Explanation& answer) {
  // The answer offloads the optimizer only if that is open, or nothing fits without.
  if (result.plans.front().plan.optimizer_offload_ratio > 0) OpenOffload(question.problem);
  const std::vector<WorkloadSetting> settings = SettingsToTurnOn(question);
  ExplainLimits limits = {.options = options,
                          .fit_probability = question.request.choice.min_fit_probability};
  Variant own(question, settings);
  ASSIGN_OR_RETURN(std::optional<RankedPlan> best, own.Fastest(limits));
  if (!best.has_value()) {
    limits.fit_probability = 0;
    ASSIGN_OR_RETURN(best, own.Fastest(limits));
  }
  if (best.has_value()) answer.best = *std::move(best);
  AddNearMiss(*result.model_optimum, answer);
  for (const RankedPlan& plan : result.plans) AddNearMiss(plan, answer);
  const Calibration& calibration = question.learnt.calibration;
  if (calibration.out_of_memory.has_value() || !calibration.failed.empty()) {
    RETURN_IF_ERROR(AddRuledOut(own, own, options, answer));
  }
  Variant roomy(Changed(question, Memory(), kPlentyOfMemory), settings);
  RETURN_IF_ERROR(AddRuledOut(own, roomy, options, answer));
  return AddSensitivities(question, settings, limits, answer);
}

// Returns the study's answer. It is whole, because half an explanation would mislead.
absl::StatusOr<StudyResult> WholeAnswer(const PreparedQuestion& question,
                                        const StudyControl& control) {
  ASSIGN_OR_RETURN(StudyAnswer studied, AnswerQuestion(question, control));
  auto* const result = std::get_if<StudyResult>(&studied);
  if (result == nullptr) {
    return WithReason(
        absl::FailedPreconditionError("no plan fits; `tune` suggests changes that would help"),
        kNoFeasiblePlanReason);
  }
  RETURN_IF_ERROR(CutStatus(result->search.stop_cause, kToExplain));
  for (RankedPlan& plan : result->plans) plan.exports.clear();
  for (auto* plan : {&result->model_optimum, &result->baseline}) {
    if (plan->has_value()) (*plan)->exports.clear();
  }
  return std::move(*result);
}

}  // namespace

absl::StatusOr<Explanation> Explain(ResolvedStudy study, const Knowledge& knowledge,
                                    const StudyControl& control) {
  RETURN_IF_ERROR(RequireExhaustive(study.request, "explain"));
  RETURN_IF_ERROR(RequireOnePool(study.problem, "explain"));
  ASSIGN_OR_RETURN(const PreparedQuestion question,
                   PrepareSearch(std::move(study), knowledge, control.history));
  SearchOptions options = SearchOptionsOf(question.request, control, Clock::now());
  options.plan_count = 1;
  ASSIGN_OR_RETURN(StudyResult result, WholeAnswer(question, control));
  Explanation answer = {.plan = result.plans.front(),
                        .best = result.plans.front(),
                        .launch = result.plans.front(),
                        .recommendation = result.recommendation,
                        .applied_defaults = result.applied_defaults,
                        .warnings = result.warnings,
                        .calibration = result.calibration};
  if (question.baseline.has_value()) answer.plan = *result.baseline;
  if (!question.request.cost_model.has_value()) {
    RETURN_IF_ERROR(AddComparisons(question, result, options, answer));
    return answer;
  }
  for (const RankedPlan& plan : result.plans) AddNearMiss(plan, answer);
  answer.warnings.emplace_back(
      "only the built-in model tells how the answer changes with more or less of a resource, or "
      "with more memory: explain without cost_model to see it");
  RETURN_IF_ERROR(AddModelLines(question, control, answer));
  return answer;
}

}  // namespace meshwright

#include "server/tuner/answers/refit.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string_view>

#include "estimator/frameworks/profile_facts.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/workload.h"
#include "server/tuner/answers/evaluate.h"
#include "server/tuner/learning/prepare.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/question_resolver.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

enum class Figure { kStepTime, kPeakMemory };

// A fact that adds to one figure of every run that it affects. Its value is searched for in its
// whole range.
struct Constant {
  std::string_view name;
  Figure figure;
};

constexpr Constant kConstants[] = {
    {"host_per_launch_seconds", Figure::kStepTime},
    {"host_per_recomputed_layer_seconds", Figure::kStepTime},
    {"host_per_collective_rank_with_pipeline_seconds", Figure::kStepTime},
    {"collective_latency_per_node_seconds", Figure::kStepTime},
    {"fixed_per_step_seconds", Figure::kStepTime},
    {"memory_bound_traffic_ratio", Figure::kStepTime},
    {"gradient_bucket_exposed_ratio", Figure::kStepTime},
    {"optimizer_traffic_bytes_per_parameter", Figure::kStepTime},
    {"gradient_traffic_bytes_per_parameter", Figure::kStepTime},
    {"logit_traffic_bytes_unfused", Figure::kStepTime},
    {"logit_traffic_bytes_fused", Figure::kStepTime},
    {"fixed_buffers_bytes", Figure::kPeakMemory},
    {"extra_bytes_per_parameter", Figure::kPeakMemory},
    {"extra_sharded_bytes_per_parameter", Figure::kPeakMemory},
    {"extra_stored_bytes_per_hidden", Figure::kPeakMemory},
    {"logit_stored_bytes_unfused", Figure::kPeakMemory},
    {"logit_stored_bytes_fused", Figure::kPeakMemory},
    {"logit_bytes_between_micro_batches", Figure::kPeakMemory},
};
// Halvings of a range, which are far more precise than the six digits that are written.
constexpr int kHalvings = 80;

std::string Names() {
  std::string names;
  for (const Constant& constant : kConstants) {
    names += (names.empty() ? "" : ", ") + std::string(constant.name);
  }
  return names;
}

std::string_view FieldOf(Figure figure) {
  return figure == Figure::kStepTime ? "step_time_seconds" : "peak_memory_bytes";
}

std::optional<double> Measured(const HistoryRow& run, Figure figure) {
  if (figure == Figure::kStepTime) {
    return run.step_time ? std::optional(run.step_time->count()) : std::nullopt;
  }
  return run.peak_memory ? std::optional(static_cast<double>(run.peak_memory->count))
                         : std::nullopt;
}

double FigureOf(const Estimate& estimate, Figure figure) {
  return figure == Figure::kStepTime ? estimate.step_time.count()
                                     : static_cast<double>(estimate.peak_memory.count);
}

void Put(std::string_view name, double value, WorkloadRequest& workload) {
  std::erase_if(workload.framework_facts,
                [&](const FrameworkFactRequest& fact) { return fact.name == name; });
  workload.framework_facts.push_back(
      {.name = std::string(name), .value = fmt::format("{:.6g}", value)});
}

class Fitter {
 public:
  Fitter(const HistoryRow& run, const Knowledge& knowledge)
      : knowledge_(knowledge), request_({.question = run.question, .plan = run.plan}) {}

  [[nodiscard]] absl::StatusOr<Estimate> Estimated() const { return EstimateOf(request_); }

  // Sets the constant in the request. Returns the reason if it cannot.
  absl::StatusOr<std::optional<std::string>> Fit(const Constant& constant, double measured) {
    const std::optional<FactRange> range = RangeOf(constant.name);
    if (!range.has_value()) {
      return absl::InternalError(fmt::format("{} has no range", constant.name));
    }
    double low = range->lowest;
    double high = range->highest;
    ASSIGN_OR_RETURN(const double least, With(constant, low));
    ASSIGN_OR_RETURN(const double most, With(constant, high));
    if (least == most) return fmt::format("{}; has no effect on this run", constant.name);
    if (measured < least || measured > most) {
      return fmt::format("{}; from {} to {} it gives {} = {:.6g} to {:.6g}, measured {:.6g}",
                         constant.name, low, high, FieldOf(constant.figure), least, most, measured);
    }
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = low + (high - low) / 2;
      ASSIGN_OR_RETURN(const double estimated, With(constant, middle));
      (estimated < measured ? low : high) = middle;
    }
    Put(constant.name, high, request_.question.workload);
    return std::nullopt;
  }

  [[nodiscard]] const std::vector<FrameworkFactRequest>& facts() const {
    return request_.question.workload.framework_facts;
  }

 private:
  [[nodiscard]] absl::StatusOr<Estimate> EstimateOf(const EvaluateRequest& request) const {
    QuestionResolver resolver(knowledge_);
    ASSIGN_OR_RETURN(const ResolvedCase resolved, ResolveCase(request, resolver));
    const std::vector<HistoryRow> nothing;
    Calibrator calibrator(nothing, knowledge_);
    ASSIGN_OR_RETURN(CalibratedEstimate evaluated, EvaluatePlan(resolved, calibrator));
    return std::move(evaluated.estimate);
  }

  absl::StatusOr<double> With(const Constant& constant, double value) const {
    EvaluateRequest request = request_;
    Put(constant.name, value, request.question.workload);
    ASSIGN_OR_RETURN(const Estimate estimate, EstimateOf(request));
    return FigureOf(estimate, constant.figure);
  }

  const Knowledge& knowledge_;
  EvaluateRequest request_;
};

// Returns the requested constants, and records what is wrong with their names.
std::vector<const Constant*> ConstantsOf(const HistoryRow& run,
                                         const std::vector<std::string>& facts,
                                         std::vector<FieldViolation>& violations) {
  std::vector<const Constant*> constants;
  const auto reject = [&](std::string description) {
    violations.push_back({.field = "fact", .description = std::move(description)});
  };
  for (const std::string& name : facts) {
    const auto* constant = std::ranges::find(kConstants, name, &Constant::name);
    if (constant == std::end(kConstants)) {
      reject(fmt::format("{}; must be one of {}", name, Names()));
      continue;
    }
    const auto same = std::ranges::find(constants, constant->figure, &Constant::figure);
    if (same != constants.end()) {
      reject(fmt::format("{}; one run has only one {}, and {} is fitted to it already", name,
                         FieldOf(constant->figure), (*same)->name));
      continue;
    }
    if (!Measured(run, constant->figure).has_value()) {
      reject(fmt::format("{}; needs the run's {}", name, FieldOf(constant->figure)));
      continue;
    }
    constants.push_back(constant);
  }
  return constants;
}

}  // namespace

absl::StatusOr<Refit> RefitFramework(const HistoryRow& run, const std::vector<std::string>& facts,
                                     const Knowledge& knowledge) {
  std::vector<FieldViolation> violations;
  if (run.outcome != Outcome::kOk) {
    violations.push_back({.field = "run.outcome", .description = "must be ok"});
  }
  const std::vector<const Constant*> constants = ConstantsOf(run, facts, violations);
  if (!violations.empty()) return InvalidFields(violations);
  Fitter fitter(run, knowledge);
  Refit refit;
  ASSIGN_OR_RETURN(refit.before, fitter.Estimated());
  for (const Constant* constant : constants) {
    ASSIGN_OR_RETURN(const auto problem, fitter.Fit(*constant, *Measured(run, constant->figure)));
    if (problem) violations.push_back({.field = "fact", .description = *problem});
  }
  if (!violations.empty()) return InvalidFields(violations);
  ASSIGN_OR_RETURN(refit.after, fitter.Estimated());
  refit.facts = fitter.facts();
  return refit;
}

}  // namespace meshwright

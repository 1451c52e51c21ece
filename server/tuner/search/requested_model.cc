#include "server/tuner/search/requested_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "pruner/rules/recompute.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/plan.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_request.h"
#include "server/tuner/search/stop_status.h"

namespace meshwright {
namespace {

CostModelSource SourceOf(const ModelVersion& version) {
  return {.name = version.name,
          .vendor = version.vendor,
          .version = version.version,
          .protocol = version.protocol,
          .checksum = version.checksum,
          .calibration = version.calibration};
}

std::optional<TimeCause> CauseOf(std::string_view name) {
  for (std::size_t i = 0; i < kTimeCauseCount; ++i) {
    const auto cause = static_cast<TimeCause>(i);
    if (Word(cause) == name) return cause;
  }
  return std::nullopt;
}

// A vendor's own breakdown lines are not in our breakdown, so their times are added to `fixed`. The
// lines add up to the step time only to within the check's tolerance
// (server/plugins/output_check.h); the result here adds up exactly.
TimeBreakdown BreakdownOf(const PlanFigures& figures) {
  TimeBreakdown breakdown = {};
  Seconds& fixed = breakdown[static_cast<std::size_t>(TimeCause::kFixed)];
  Seconds sum(0);
  for (const auto& [name, time] : figures.breakdown) sum += time;
  if (sum <= Seconds(0)) {
    fixed = figures.step_time;
    return breakdown;
  }
  const double scale = figures.step_time / sum;
  for (const auto& [name, time] : figures.breakdown) {
    const std::optional<TimeCause> cause = CauseOf(name);
    (cause.has_value() ? breakdown[static_cast<std::size_t>(*cause)] : fixed) += time * scale;
  }
  return breakdown;
}

// Replaces the step time. The interval keeps its width relative to the time and contains it.
// (BreakdownOf scales the breakdown to the step time.)
void SetStepTime(PlanFigures& figures, Seconds time) {
  const double ratio = time / figures.step_time;
  figures.step_time = time;
  if (figures.step_time_low.has_value()) {
    figures.step_time_low = std::min(*figures.step_time_low * ratio, time);
  }
  if (figures.step_time_high.has_value()) {
    figures.step_time_high = std::max(*figures.step_time_high * ratio, time);
  }
}

std::string_view TextOf(PlanVerdict verdict) {
  switch (verdict) {
    case PlanVerdict::kOk:
      return "estimated";
    case PlanVerdict::kInfeasibleMemory:
      return "do not fit by its own memory model";
    case PlanVerdict::kUnsupported:
      return "are not supported by it";
    case PlanVerdict::kError:
      break;
  }
  return "got no usable estimate";
}

absl::Status NoEstimate(const ModelVersion& version, const PlanFigures& figures) {
  return WithReason(absl::FailedPreconditionError(fmt::format(
                        "plans of this kind {} (cost model {} {}): {}", TextOf(figures.verdict),
                        version.name, version.version, figures.reason)),
                    "COST_MODEL_NO_ESTIMATE");
}

std::string BoundWarning(const ModelFound& found, const ModelVersion& version) {
  const std::string left_out =
      fmt::format("{} plans were left out by the model's own bounds", found.left_out_by_bounds);
  if (!found.broken_bound.has_value()) {
    return fmt::format("cost model {}: {}, which are not verified", version.name, left_out);
  }
  const BrokenBound& broken = *found.broken_bound;
  return fmt::format(
      "cost model {}: its lower bound of {:.6g} s for {} is above its own estimate of {:.6g} s; "
      "its bounds were not used after that{}",
      version.name, broken.bound.count(), MakePlanKey(broken.plan).text, broken.step_time.count(),
      found.left_out_by_bounds == 0
          ? ""
          : fmt::format(", but {} before that: the best plan may be among them", left_out));
}

}  // namespace

absl::Status FallBack(const CostModelRequest& asked, const absl::Status& why,
                      RequestedModel& model) {
  // An unknown name is a mistake of the request, not a failure of the model.
  if (!asked.allow_fallback || Reason(why) == "UNKNOWN_COST_MODEL" || absl::IsCancelled(why)) {
    return why;
  }
  CostModelSource source =
      model.model == nullptr ? CostModelSource() : SourceOf(model.model->version());
  source.name = asked.name;
  source.is_fallback = true;
  source.reason = std::string(why.message());
  model = {.fallback = std::move(source)};
  return absl::OkStatus();
}

absl::StatusOr<RequestedModel> OpenRequestedModel(const std::optional<CostModelRequest>& asked,
                                                  const Problem& problem, const OpenPlanModel& open,
                                                  const std::stop_token& cancel) {
  RequestedModel model;
  if (!asked.has_value()) return model;
  if (!open) {
    return WithReason(absl::FailedPreconditionError(
                          fmt::format("cost_model.name: '{}'; no folder of cost models was given "
                                      "(--cost-models)",
                                      asked->name)),
                      "NO_COST_MODELS");
  }
  auto opened = open(asked->name, problem, cancel);
  if (opened.ok()) {
    model.model = *std::move(opened);
  } else if (absl::Status failed = FallBack(*asked, opened.status(), model); !failed.ok()) {
    return failed;
  }
  return model;
}

void ApplyFigures(const PlanFigures& figures, const ModelVersion& version, Estimate& estimate) {
  const double ratio = figures.step_time / estimate.step_time;
  estimate.step_time_low = figures.step_time_low.value_or(estimate.step_time_low * ratio);
  estimate.step_time_high = figures.step_time_high.value_or(estimate.step_time_high * ratio);
  estimate.step_time = figures.step_time;
  estimate.tokens_per_second_per_device /= ratio;
  estimate.model_flops_utilization /= ratio;
  estimate.breakdown = BreakdownOf(figures);
  estimate.provenance = Provenance::kAssumed;  // the source is not known here
  estimate.breakdown_provenance.clear();
  estimate.uncertainty_ratio_by_source.clear();
  if (figures.breakdown.empty()) {
    estimate.warnings.push_back(fmt::format(
        "cost model {} gave no breakdown: all its time is shown as fixed", version.name));
  }
  estimate.cost_model = SourceOf(version);
  estimate.cost_model->peak_memory = figures.peak_memory;
}

namespace {

// The best plans are asked about twice, which also tests the model's claim to be deterministic.
void NoteChange(const ModelVersion& version, Seconds first, Seconds again, Estimate& estimate) {
  if (!version.is_deterministic || first == again) return;
  estimate.warnings.push_back(
      fmt::format("cost model {} says that it is deterministic, but gave {} s and {} s for this "
                  "plan; the first counts",
                  version.name, first.count(), again.count()));
}

// Keeps the time that the plan was ranked by, even if the model can no longer be asked.
void KeepRankedTime(const ModelVersion& version, Seconds ranked, PlanFigures& figures,
                    Estimate& estimate) {
  if (figures.verdict != PlanVerdict::kOk) {
    figures = {.verdict = PlanVerdict::kOk, .step_time = ranked};
    return;
  }
  NoteChange(version, ranked, figures.step_time, estimate);
  SetStepTime(figures, ranked);
}

}  // namespace

absl::Status ApplyModel(RequestedModel& asked, const Problem& problem, const ModelFound& known,
                        std::span<RankedPlan* const> plans, const std::stop_token& cancel) {
  if (asked.fallback.has_value()) {
    for (RankedPlan* plan : plans) plan->estimate.cost_model = asked.fallback;
    return absl::OkStatus();
  }
  if (asked.model == nullptr) return absl::OkStatus();
  std::vector<ParallelPlan> questions;
  for (const RankedPlan* plan : plans) questions.push_back(WithUnevenSplit(plan->plan, problem));
  const auto figures = asked.model->Estimate(questions, {.with_breakdown = true, .cancel = cancel});
  if (absl::IsCancelled(figures.status())) return figures.status();
  for (std::size_t i = 0; i < plans.size(); ++i) {
    RankedPlan& plan = *plans[i];
    PlanFigures own = figures.ok() ? (*figures)[i] : PlanFigures();
    for (const RecomputeChoice& choice : known.found.best) {
      if (WithUnevenSplit(choice.plan, problem) != questions[i]) continue;
      KeepRankedTime(asked.model->version(), choice.estimate.step_time, own, plan.estimate);
    }
    if (own.verdict == PlanVerdict::kOk) {
      ApplyFigures(own, asked.model->version(), plan.estimate);
      continue;
    }
    const std::string why = figures.ok() ? own.reason : std::string(figures.status().message());
    plan.estimate.cost_model = SourceOf(asked.model->version());
    plan.estimate.cost_model->is_fallback = true;
    plan.estimate.cost_model->reason = why;
    plan.estimate.warnings.push_back(
        fmt::format("the times are the built-in model's: cost model {} did not estimate this plan",
                    asked.model->version().name));
  }
  return absl::OkStatus();
}

std::vector<std::string> WarningsOf(const ModelFound& found, const ModelVersion& version) {
  std::vector<std::string> warnings;
  for (const auto& [verdict, unanswered] : found.unanswered) {
    warnings.push_back(fmt::format("cost model {}: {} of {} plans {}; the first: {}", version.name,
                                   unanswered.count, found.found.summary.evaluated_count,
                                   TextOf(verdict), unanswered.first_reason));
  }
  if (found.left_out_by_bounds > 0 || found.broken_bound.has_value()) {
    warnings.push_back(BoundWarning(found, version));
  }
  if (!found.failure.ok()) {
    warnings.push_back(fmt::format("cost model {} stopped answering after {} plans: {}",
                                   version.name, found.found.summary.evaluated_count,
                                   std::string(found.failure.message())));
  }
  return warnings;
}

namespace {

std::string WithWarnings(std::string text, const ModelFound& searched,
                         const ModelVersion& version) {
  for (const std::string& warning : WarningsOf(searched, version)) text += "; " + warning;
  return text;
}

}  // namespace

absl::Status NothingFits(const ModelFound& searched, const ModelVersion& version) {
  return WithReason(absl::FailedPreconditionError(
                        WithWarnings("no plan fits by the cost model", searched, version)),
                    kNoFeasiblePlanReason);
}

absl::Status WhyNothing(const ModelFound& searched, const ModelVersion& version) {
  if (!searched.found.best.empty() || searched.unanswered.empty()) return absl::OkStatus();
  const std::string text = WithWarnings("no plan that fits has an estimate", searched, version);
  // If the model finds that some plans do not fit and does not support the others, that is an
  // answer. An error is not.
  const bool is_answer = searched.unanswered.contains(PlanVerdict::kInfeasibleMemory) &&
                         !searched.unanswered.contains(PlanVerdict::kError);
  const StopCause cause = searched.found.summary.stop_cause;
  const bool was_cut = cause == StopCause::kCancelled || cause == StopCause::kDeadline;
  if (was_cut || is_answer) return StopStatus(cause, text);
  return WithReason(absl::FailedPreconditionError(text), "COST_MODEL_NO_ESTIMATE");
}

absl::Status CaseModel::Open(const ResolvedCase& asked) {
  if (question_.has_value() && *question_ == asked.question) return absl::OkStatus();
  question_.reset();
  model_ = {};  // must be destroyed before its problem
  problem_ = asked.problem;
  ASSIGN_OR_RETURN(model_, OpenRequestedModel(asked_, *problem_, open_, {}));
  question_ = asked.question;
  return absl::OkStatus();
}

absl::Status CaseModel::Apply(const ResolvedCase& asked, Estimate& estimate) {
  if (!asked_.has_value()) return absl::OkStatus();
  if (absl::Status opened = Open(asked); !opened.ok()) return opened;
  if (model_.model != nullptr) {
    const std::vector<ParallelPlan> plans = {WithUnevenSplit(asked.plan.plan, *problem_)};
    const auto figures = model_.model->Estimate(plans, {.with_breakdown = true});
    if (figures.ok() && figures->front().verdict != PlanVerdict::kOk) {
      return NoEstimate(model_.model->version(), figures->front());
    }
    if (figures.ok()) {
      ApplyFigures(figures->front(), model_.model->version(), estimate);
      const std::vector<std::string>& warnings = model_.model->warnings();
      estimate.warnings.insert(estimate.warnings.end(), warnings.begin(), warnings.end());
      return absl::OkStatus();
    }
    if (absl::Status failed = FallBack(*asked_, figures.status(), model_); !failed.ok()) {
      return failed;
    }
    question_.reset();  // the next case tries again
  }
  estimate.cost_model = model_.fallback;
  return absl::OkStatus();
}

}  // namespace meshwright

#include "server/engine/study_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/digest/fnv.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/plan.h"
#include "server/engine/measurement.h"
#include "server/engine/wall_clock.h"
#include "server/tuner/question/launcher_facts.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/trial.h"

namespace meshwright {
namespace {

PlanRecord ToRecord(const std::string& study_id, int rank, const RankedPlan& ranked,
                    const StudyCodec& codec, const std::vector<TriedPlan>& trials) {
  const PlanKey key = MakePlanKey(ranked.plan);
  const bool was_measured = std::ranges::any_of(trials, [&](const TriedPlan& trial) {
    return trial.plan == ranked.plan && std::holds_alternative<Ran>(trial.outcome);
  });
  return {.study_id = study_id,
          .rank = rank,
          .plan_key = key.text,
          .plan_digest = key.digest,
          .state = was_measured ? "measured" : "estimated",
          .plan = codec.encode_plan(ranked.plan),
          .estimate = codec.encode_estimate(ranked.estimate),
          .step_time = ranked.estimate.step_time,
          .peak_memory = ranked.estimate.peak_memory,
          .reserved_memory = ranked.estimate.reserved_memory,
          .fits = ranked.estimate.fits};
}

std::vector<PlanRecord> ToRecords(const std::string& study_id, const StudyResult& result,
                                  const StudyCodec& codec) {
  std::vector<PlanRecord> records;
  if (result.baseline.has_value()) {
    records.push_back(ToRecord(study_id, 0, *result.baseline, codec, result.trials));
  }
  int rank = 0;
  for (const RankedPlan& ranked : result.plans) {
    records.push_back(ToRecord(study_id, ++rank, ranked, codec, result.trials));
  }
  return records;
}

// Returns nullopt if the baseline does not fit, because its time is then no basis for comparison.
std::optional<double> GainOverBaseline(const StudyResult& result) {
  if (result.plans.empty() || !result.baseline.has_value() || !result.baseline->estimate.fits) {
    return std::nullopt;
  }
  return result.baseline->estimate.step_time / result.plans.front().estimate.step_time - 1.0;
}

void AddResult(const StudyResult& result, const StudyCodec& codec, StudyEnding& ending) {
  ending.plans = ToRecords(ending.study_id, result, codec);
  ending.search_time = result.search.seconds;
  if (result.plans.empty()) return;
  ending.best_step_time = result.plans.front().estimate.step_time;
  ending.best_plan_digest = MakePlanKey(result.plans.front().plan).digest;
  ending.gain_over_baseline = GainOverBaseline(result);
}

void AddFailure(const absl::Status& status, StudyEnding& ending) {
  ending.error_message = ErrorText(status);
  const bool cancelled = absl::IsCancelled(status);
  ending.state = cancelled ? StudyState::kCancelled : StudyState::kFailed;
  if (cancelled) {
    ending.outcome = "cancelled";
  } else if (absl::IsDeadlineExceeded(status)) {
    ending.outcome = "deadline_cut";
  } else {
    ending.outcome = Reason(status) == "EVALUATION_LIMIT" ? "evaluation_limit" : "failed";
  }
}

// Returns the chips of a cluster beside its first pool's, each once, in their order.
std::vector<std::string> OtherChips(const ClusterSpec& cluster) {
  std::vector<std::string> chips;
  for (const NodePool& pool : cluster.pools) {
    const std::string& chip = pool.chip.id;
    if (chip == cluster.pools.front().chip.id || std::ranges::find(chips, chip) != chips.end())
      continue;
    chips.push_back(chip);
  }
  return chips;
}

std::optional<absl::StatusCode> ParseCode(std::string_view word) {
  // Tries all canonical codes except OK.
  for (int i = 1; i <= static_cast<int>(absl::StatusCode::kUnauthenticated); ++i) {
    const auto code = static_cast<absl::StatusCode>(i);
    if (absl::StatusCodeToString(code) == word) return code;
  }
  return std::nullopt;
}

bool AllTrialsFailed(const StudyResult& result) {
  return !result.trials.empty() && std::ranges::none_of(result.trials, [](const TriedPlan& trial) {
    return std::holds_alternative<Ran>(trial.outcome);
  });
}

// A recommendation may pass over a baseline that is a little faster by the model, because another
// plan is surer. Without one, the times decide.
bool LaunchesBaseline(const StudyResult& result) {
  if (result.recommendation.has_value() && !result.plans.empty() && result.baseline.has_value()) {
    const RankedPlan& launched = result.plans.front();
    return MakePlanKey(launched.plan) == MakePlanKey(result.baseline->plan) &&
           launched.settings == result.baseline->settings;
  }
  const auto gain = GainOverBaseline(result);
  return gain.has_value() && *gain <= 0.0;
}

std::string OutcomeOf(const StudyAnswer& answer) {
  if (!std::holds_alternative<StudyResult>(answer)) return "no_feasible_plan";
  const auto& result = std::get<StudyResult>(answer);
  if (result.search.stop_cause == StopCause::kDeadline) return "deadline_cut";
  if (AllTrialsFailed(result)) return "all_trials_failed";
  return LaunchesBaseline(result) ? "baseline_best" : "improved";
}

}  // namespace

StudyRecord NewStudyRecord(const ResolvedStudy& study, const StudyCodec& codec) {
  const Problem& problem = study.problem;
  StudyRecord record = {.model_name = problem.model.name,
                        .cluster_name = problem.cluster.name,
                        .chip = problem.cluster.pools.front().chip.id,
                        .other_chips = OtherChips(problem.cluster),
                        .device_count = DeviceCount(problem.cluster),
                        .question = codec.encode_request(study.request)};
  const std::optional<TrialRequest>& trials = study.request.trials;
  if (trials.has_value() && RunsJobs(trials->launcher)) {
    record.device_time_limit = trials->budget.device_time;
  }
  // The hash distinguishes a repeated request from another one with the same request_id. It need
  // not resist attackers, who could send the other request with an id of its own anyway.
  record.request_hash = Fnv1a64Hex(record.question);
  return record;
}

StudyEnding EndingOf(const std::string& id, const absl::StatusOr<StudyAnswer>& answer,
                     const StudyCodec& codec, std::int64_t time_ms) {
  StudyEnding ending = {.study_id = id, .time_ms = time_ms};
  if (!answer.ok()) {
    AddFailure(answer.status(), ending);
    return ending;
  }
  ending.result = codec.encode_answer(*answer);
  StopCause stop_cause = StopCause::kFinished;
  if (const auto* result = std::get_if<StudyResult>(&*answer)) {
    AddResult(*result, codec, ending);
    stop_cause = result->search.stop_cause;
  } else {
    const auto& search = std::get<Infeasible>(*answer).search;
    ending.search_time = search.seconds;
    stop_cause = search.stop_cause;
  }
  const bool cancelled = stop_cause == StopCause::kCancelled;
  ending.state = cancelled ? StudyState::kCancelled : StudyState::kSucceeded;
  ending.outcome = cancelled ? "cancelled" : OutcomeOf(*answer);
  return ending;
}

std::optional<CalibrationRecord> CalibrationOf(const absl::StatusOr<StudyAnswer>& answer,
                                               const StudyCodec& codec, std::int64_t time_ms) {
  const auto* result = answer.ok() ? std::get_if<StudyResult>(&*answer) : nullptr;
  if (result == nullptr || !result->calibration.has_value()) return std::nullopt;
  return CalibrationRecordOf(*result->calibration, codec, time_ms);
}

std::string ErrorText(const absl::Status& status) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string reason = Reason(status);
  return fmt::format("{}{}: {}", code, reason == code ? "" : " " + reason,
                     std::string(status.message()));
}

std::optional<absl::Status> ParseErrorText(std::string_view text) {
  const std::size_t colon = text.find(": ");
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view head = text.substr(0, colon);
  const std::size_t blank = head.find(' ');
  const std::optional<absl::StatusCode> code = ParseCode(head.substr(0, blank));
  if (!code.has_value()) return std::nullopt;
  const absl::Status status(*code, std::string(text.substr(colon + 2)));
  if (blank == std::string_view::npos) return status;
  const std::string_view reason = head.substr(blank + 1);
  // This is some other text that happens to begin with the name of a code.
  if (reason.empty() ||
      reason.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != reason.npos) {
    return std::nullopt;
  }
  return WithReason(status, reason);
}

StudyEnding FailedEnding(const std::string& id, const absl::Status& status) {
  return {.study_id = id,
          .state = StudyState::kFailed,
          .time_ms = NowMs(),
          .outcome = "failed",
          .error_message = ErrorText(status)};
}

StudyEnding CancelledEnding(const std::string& id) {
  return {
      .study_id = id, .state = StudyState::kCancelled, .time_ms = NowMs(), .outcome = "cancelled"};
}

bool WasCut(const absl::StatusOr<StudyAnswer>& answer) {
  if (!answer.ok()) return absl::IsCancelled(answer.status());
  return std::visit([](const auto& a) { return a.search.stop_cause == StopCause::kCancelled; },
                    *answer);
}

}  // namespace meshwright

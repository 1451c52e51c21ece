#include "server/convert/attempt_wire.h"

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "proto/json/text_fields.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/clean_text.h"
#include "search_space/base/status.h"
#include "search_space/spec/attempt.h"
#include "server/convert/trial_wire.h"
#include "server/convert/wire_time.h"
#include "server/engine/attempt_log.h"
#include "server/tuner/trials/harness_progress.h"

namespace meshwright {
namespace {

constexpr int kDefaultLogBytes = 65'536;
constexpr int kMaxLogBytes = 1'048'576;
// The harness writes no more into its file (workloads/measure/output.py).
constexpr std::int64_t kMaxHarnessLog = std::int64_t{256} << 20;

enum class AttemptView { kList, kWithEnvironment, kWithLogs };

v1::Attempt ToWire(const AttemptRecord& attempt, AttemptView view) {
  v1::Attempt wire;
  wire.set_id(attempt.id);
  wire.set_trial_number(attempt.trial_number);
  wire.set_number(attempt.number);
  wire.set_launcher(attempt.launcher);
  wire.set_external_id(attempt.external_id);
  wire.set_state(std::string(Word(attempt.state)));
  if (attempt.outcome.has_value()) wire.set_outcome(std::string(Word(*attempt.outcome)));
  wire.set_failure_class(attempt.failure_class);
  wire.set_message(attempt.message);
  wire.set_device_seconds(attempt.device_time.count());
  wire.set_create_time(WireTime(attempt.create_time_ms));
  if (attempt.submit_time_ms) wire.set_submit_time(WireTime(*attempt.submit_time_ms));
  if (attempt.start_time_ms) wire.set_start_time(WireTime(*attempt.start_time_ms));
  if (attempt.end_time_ms) wire.set_end_time(WireTime(*attempt.end_time_ms));
  for (const std::string& node : attempt.nodes) wire.add_nodes(node);
  const AttemptQuality& quality = attempt.quality;
  if (quality.step_count) wire.set_step_count(*quality.step_count);
  if (quality.step_time_low) wire.set_step_time_low_seconds(quality.step_time_low->count());
  if (quality.step_time_high) wire.set_step_time_high_seconds(quality.step_time_high->count());
  if (quality.spread_ratio) wire.set_spread_ratio(*quality.spread_ratio);
  for (const std::string& reason : quality.suspect_reasons) wire.add_suspect_reasons(reason);
  wire.set_environment_digest(quality.environment_digest);
  if (view != AttemptView::kList) wire.set_environment(quality.environment);
  if (view == AttemptView::kWithLogs) {
    wire.set_log_head(attempt.log_head);
    wire.set_log_tail(attempt.log_tail);
  }
  MaskSecretTexts(wire);
  return wire;
}

// Returns an empty folder if the study's launcher runs no jobs.
absl::StatusOr<std::string> JobFolderOf(const HistoryQueries& history,
                                        const std::string& study_id) {
  ASSIGN_OR_RETURN(const StudyRecord study, history.GetStudy(study_id));
  v1::TuneRequest request;
  if (!request.ParseFromString(study.question)) return std::string();
  return request.trials().job().folder();
}

// Adds what the harness of a running attempt has written so far, if that can be seen from here.
void AddHarnessState(const AttemptRecord& attempt, const std::string& folder, v1::Attempt& wire) {
  if (attempt.state != AttemptState::kRunning || folder.empty()) return;
  const auto progress = ReadHarnessProgress(folder, attempt.id, attempt.fencing_token);
  if (!progress.has_value()) return;
  wire.set_harness_state(progress->state);
  wire.set_harness_step_count(progress->step_count);
}

absl::Status CheckTrialNumber(int number) {
  if (number >= 1) return absl::OkStatus();
  return InvalidFields(
      {{.field = "trial_number", .description = fmt::format("{}; must be >= 1", number)}});
}

absl::Status CheckLogRequest(const v1::GetTrialLogsRequest& request) {
  std::vector<FieldViolation> found = FieldViolations(CheckTrialNumber(request.trial_number()));
  if (request.has_attempt_number() && request.attempt_number() < 1) {
    found.push_back({.field = "attempt_number",
                     .description = fmt::format("{}; must be >= 1", request.attempt_number())});
  }
  if (request.has_max_bytes() && (request.max_bytes() < 1 || request.max_bytes() > kMaxLogBytes)) {
    found.push_back({.field = "max_bytes",
                     .description = fmt::format("{}; must be between 1 and {}", request.max_bytes(),
                                                kMaxLogBytes)});
  }
  return found.empty() ? absl::OkStatus() : InvalidFields(found);
}

absl::StatusOr<const AttemptRecord*> AttemptOf(const std::vector<AttemptRecord>& attempts,
                                               const v1::GetTrialLogsRequest& request) {
  for (auto attempt = attempts.rbegin(); attempt != attempts.rend(); ++attempt) {
    if (!request.has_attempt_number() || attempt->number == request.attempt_number()) {
      return &*attempt;
    }
  }
  return WithReason(
      absl::NotFoundError(fmt::format(
          "attempt {} at trial {} of study '{}' does not exist; it has {}",
          request.attempt_number(), request.trial_number(), request.study_id(), attempts.size())),
      "UNKNOWN_ATTEMPT");
}

}  // namespace

absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(const HistoryQueries& history,
                                                      const v1::ListAttemptsRequest& request) {
  std::optional<int> trial;
  if (request.has_trial_number()) trial = request.trial_number();
  RETURN_IF_ERROR(CheckTrialNumber(trial.value_or(1)));
  ASSIGN_OR_RETURN(const std::vector<AttemptRecord> attempts,
                   history.ListAttempts(request.study_id(), trial));
  ASSIGN_OR_RETURN(const std::string folder, JobFolderOf(history, request.study_id()));
  v1::ListAttemptsResponse response;
  for (const AttemptRecord& attempt : attempts) {
    v1::Attempt& wire = *response.add_attempts();
    wire = ToWire(attempt, trial.has_value() ? AttemptView::kWithLogs : AttemptView::kList);
    AddHarnessState(attempt, folder, wire);
  }
  return response;
}

absl::StatusOr<v1::GetTrialResponse> GetTrial(const HistoryQueries& history,
                                              const v1::GetTrialRequest& request) {
  RETURN_IF_ERROR(CheckTrialNumber(request.trial_number()));
  ASSIGN_OR_RETURN(const TrialRecord trial,
                   history.GetTrial(request.study_id(), request.trial_number()));
  ASSIGN_OR_RETURN(const std::vector<AttemptRecord> attempts,
                   history.ListAttempts(request.study_id(), request.trial_number()));
  ASSIGN_OR_RETURN(const std::string folder, JobFolderOf(history, request.study_id()));
  v1::GetTrialResponse response;
  ASSIGN_OR_RETURN(*response.mutable_trial(), ToWire(trial));
  for (const AttemptRecord& attempt : attempts) {
    v1::Attempt& wire = *response.add_attempts();
    wire = ToWire(attempt, AttemptView::kWithEnvironment);
    AddHarnessState(attempt, folder, wire);
  }
  return response;
}

absl::StatusOr<v1::GetTrialLogsResponse> GetTrialLogs(const HistoryQueries& history,
                                                      const v1::GetTrialLogsRequest& request) {
  RETURN_IF_ERROR(CheckLogRequest(request));
  ASSIGN_OR_RETURN(const std::vector<AttemptRecord> attempts,
                   history.ListAttempts(request.study_id(), request.trial_number()));
  ASSIGN_OR_RETURN(const AttemptRecord* const attempt, AttemptOf(attempts, request));
  ASSIGN_OR_RETURN(const std::string folder, JobFolderOf(history, request.study_id()));
  LogRange range = {.size = request.has_max_bytes() ? request.max_bytes() : kDefaultLogBytes};
  if (request.has_offset_bytes()) range.offset = request.offset_bytes();

  v1::GetTrialLogsResponse response;
  response.set_attempt_id(attempt->id);
  response.set_attempt_number(attempt->number);
  response.set_has_ended(attempt->state == AttemptState::kEnded);
  std::optional<LogPart> part;
  if (!folder.empty()) part = ReadAttemptLog(folder, attempt->id, range);
  if (part.has_value()) {
    response.set_source("file");
    response.set_is_cut(part->log_size >= kMaxHarnessLog);
  } else {
    part = PartOfLog(attempt->log_head + attempt->log_tail, range);
    response.set_source(part->log_size > 0 ? "store" : "none");
    response.set_is_cut(!attempt->log_tail.empty());
  }
  response.set_offset_bytes(part->offset);
  response.set_next_offset_bytes(part->offset + static_cast<std::int64_t>(part->text.size()));
  response.set_size_bytes(part->log_size);
  response.set_text(CleanText(part->text, {.longest_bytes = kMaxLogBytes, .keeps_lines = true}));
  return response;
}

}  // namespace meshwright

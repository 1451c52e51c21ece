#include "server/convert/attempt_wire.h"

#include <fmt/format.h>

#include <optional>
#include <string>
#include <vector>

#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/spec/attempt.h"
#include "server/convert/wire_time.h"
#include "server/tuner/trials/harness_progress.h"

namespace meshwright {
namespace {

v1::Attempt ToWire(const AttemptRecord& attempt, bool has_logs) {
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
  if (has_logs) {
    wire.set_environment(quality.environment);
    wire.set_log_head(attempt.log_head);
    wire.set_log_tail(attempt.log_tail);
  }
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

}  // namespace

absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(const HistoryQueries& history,
                                                      const v1::ListAttemptsRequest& request) {
  std::optional<int> trial;
  if (request.has_trial_number()) trial = request.trial_number();
  if (trial.value_or(1) < 1) {
    return InvalidFields(
        {{.field = "trial_number", .description = fmt::format("{}; must be >= 1", *trial)}});
  }
  ASSIGN_OR_RETURN(const std::vector<AttemptRecord> attempts,
                   history.ListAttempts(request.study_id(), trial));
  ASSIGN_OR_RETURN(const std::string folder, JobFolderOf(history, request.study_id()));
  v1::ListAttemptsResponse response;
  for (const AttemptRecord& attempt : attempts) {
    v1::Attempt& wire = *response.add_attempts();
    wire = ToWire(attempt, trial.has_value());
    AddHarnessState(attempt, folder, wire);
  }
  return response;
}

}  // namespace meshwright

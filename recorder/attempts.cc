// The Recorder's calls for the attempts at a trial.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

constexpr char kAttemptColumns[] =
    "id, study_id, trial_number, number, fencing_token, state, launcher, external_id, "
    "create_time_ms, submit_time_ms, start_time_ms, end_time_ms, outcome, failure_class, "
    "device_seconds, log_head, log_tail, message, nodes, step_count, step_time_low_seconds, "
    "step_time_high_seconds, spread_ratio, suspect_reasons, environment, environment_digest";

constexpr char kNodeEnd = ',';
constexpr char kReasonEnd = '\n';

AttemptQuality ReadQuality(const Statement& row, int column) {
  AttemptQuality quality = {.step_time_low = OptionalSeconds(row, column + 1),
                            .step_time_high = OptionalSeconds(row, column + 2),
                            .spread_ratio = row.OptionalReal(column + 3),
                            .suspect_reasons = SplitText(row.Text(column + 4), kReasonEnd),
                            .environment = row.Text(column + 5),
                            .environment_digest = row.Text(column + 6)};
  if (const auto count = row.OptionalInteger(column); count.has_value()) {
    quality.step_count = static_cast<int>(*count);
  }
  return quality;
}

absl::StatusOr<AttemptRecord> ReadRow(const Statement& row) {
  AttemptRecord attempt = {.id = row.Text(0),
                           .study_id = row.Text(1),
                           .trial_number = static_cast<int>(row.Integer(2)),
                           .number = static_cast<int>(row.Integer(3)),
                           .fencing_token = row.Integer(4),
                           .launcher = row.Text(6),
                           .external_id = row.Text(7),
                           .create_time_ms = row.Integer(8),
                           .submit_time_ms = row.OptionalInteger(9),
                           .start_time_ms = row.OptionalInteger(10),
                           .end_time_ms = row.OptionalInteger(11),
                           .failure_class = row.Text(13),
                           .message = row.Text(17),
                           .device_time = Seconds(row.Real(14)),
                           .log_head = row.Text(15),
                           .log_tail = row.Text(16),
                           .nodes = SplitText(row.Text(18), kNodeEnd),
                           .quality = ReadQuality(row, 19)};
  const std::string whose = fmt::format("attempt '{}'", attempt.id);
  ASSIGN_OR_RETURN(attempt.state, ReadWord<AttemptState>(row, 5, whose));
  ASSIGN_OR_RETURN(attempt.outcome, ReadOptionalWord<Outcome>(row, 12, whose));
  return attempt;
}

absl::StatusOr<std::vector<AttemptRecord>> ReadAttempts(Connection* connection,
                                                        std::string_view study_id,
                                                        std::optional<std::int64_t> trial_number) {
  const char* const of_trial = trial_number.has_value() ? "AND trial_number = ?2" : "";
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(connection, fmt::format("SELECT {} FROM attempts WHERE study_id = ?1 {} "
                                                 "ORDER BY trial_number, number",
                                                 kAttemptColumns, of_trial)));
  RETURN_IF_ERROR(trial_number.has_value() ? query.Bind(study_id, *trial_number)
                                           : query.Bind(study_id));
  std::vector<AttemptRecord> attempts;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return attempts;
    ASSIGN_OR_RETURN(AttemptRecord attempt, ReadRow(query));
    attempts.push_back(std::move(attempt));
  }
}

absl::Status CheckToken(const AttemptRecord& attempt, std::int64_t token) {
  if (attempt.fencing_token == token) return absl::OkStatus();
  return WithReason(
      absl::FailedPreconditionError(fmt::format("attempt '{}': fencing_token = {}; must be {}",
                                                attempt.id, token, attempt.fencing_token)),
      "STALE_TOKEN");
}

// Returns an error if the attempt can no longer be changed.
absl::Status CheckOpen(Connection* connection, const AttemptRecord& attempt) {
  ASSIGN_OR_RETURN(Statement newest,
                   Statement::Prepare(connection,
                                      "SELECT id FROM attempts WHERE study_id = ?1 AND "
                                      "trial_number = ?2 ORDER BY number DESC LIMIT 1"));
  RETURN_IF_ERROR(newest.Bind(attempt.study_id, attempt.trial_number));
  RETURN_IF_ERROR(newest.Step().status());
  if (newest.Text(0) != attempt.id) {
    return WithReason(absl::FailedPreconditionError(fmt::format(
                          "attempt '{}' was superseded by '{}'", attempt.id, newest.Text(0))),
                      "STALE_TOKEN");
  }
  if (attempt.state == AttemptState::kEnded) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format("attempt '{}' has ended ({})", attempt.id,
                                                  Word(attempt.outcome.value_or(Outcome::kOk)))),
        "ATTEMPT_ENDED");
  }
  return absl::OkStatus();
}

bool IsSame(const AttemptRecord& ended, const AttemptEnding& ending) {
  return ended.outcome == ending.outcome && ended.failure_class == ending.failure_class &&
         ended.message == ending.message && ended.device_time == ending.device_time &&
         ended.log_head == ending.log_head && ended.log_tail == ending.log_tail &&
         ended.nodes == ending.nodes && ended.quality == ending.quality &&
         ended.end_time_ms == ending.time_ms;
}

}  // namespace

std::vector<std::string> SplitText(std::string_view text, char end_of_part) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(end_of_part), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

std::string JoinText(const std::vector<std::string>& parts, char end_of_part) {
  return fmt::format("{}", fmt::join(parts, std::string(1, end_of_part)));
}

absl::StatusOr<AttemptRecord> ReadAttempt(Connection* connection, std::string_view id) {
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(connection,
                         fmt::format("SELECT {} FROM attempts WHERE id = ?1", kAttemptColumns)));
  RETURN_IF_ERROR(query.Bind(id));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (is_there) return ReadRow(query);
  return WithReason(absl::NotFoundError(fmt::format("attempt '{}' does not exist", id)),
                    "UNKNOWN_ATTEMPT");
}

absl::StatusOr<AttemptRecord> InsertAttempt(Connection* connection, const AttemptIntent& intent) {
  RETURN_IF_ERROR(Run(connection, R"sql(
UPDATE attempts SET state = ?3, outcome = ?4, failure_class = ?5, end_time_ms = ?6
WHERE study_id = ?1 AND trial_number = ?2 AND state <> ?3)sql",
                      intent.study_id, intent.trial_number, Word(AttemptState::kEnded),
                      Word(Outcome::kCancelled), kSuperseded, intent.time_ms));
  ASSIGN_OR_RETURN(Statement numbers, Statement::Prepare(connection, R"sql(
SELECT (SELECT coalesce(max(number), 0) + 1 FROM attempts
        WHERE study_id = ?1 AND trial_number = ?2),
       (SELECT coalesce(max(last), 0) + 1
        FROM (SELECT max(fencing_token) AS last FROM attempts
              UNION ALL SELECT max(last_fencing_token) FROM deleted_studies) AS tokens))sql"));
  RETURN_IF_ERROR(numbers.Bind(intent.study_id, intent.trial_number));
  RETURN_IF_ERROR(numbers.Step().status());
  const std::int64_t number = numbers.Integer(0);
  const std::string id = fmt::format("{}-t{}-a{}", intent.study_id, intent.trial_number, number);
  RETURN_IF_ERROR(Run(connection, R"sql(
INSERT INTO attempts (id, study_id, trial_number, number, fencing_token, state, launcher,
  external_id, create_time_ms, failure_class, device_seconds, log_head, log_tail)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, '', ?8, '', 0, '', ''))sql",
                      id, intent.study_id, intent.trial_number, number, numbers.Integer(1),
                      Word(AttemptState::kIntended), intent.launcher, intent.time_ms));
  return ReadAttempt(connection, id);
}

absl::StatusOr<AttemptRecord> EndAttempt(Connection* connection, const AttemptEnding& ending) {
  ASSIGN_OR_RETURN(const AttemptRecord attempt, ReadAttempt(connection, ending.attempt_id));
  RETURN_IF_ERROR(CheckToken(attempt, ending.fencing_token));
  if (attempt.state == AttemptState::kEnded && IsSame(attempt, ending)) return attempt;
  RETURN_IF_ERROR(CheckOpen(connection, attempt));
  const AttemptQuality& quality = ending.quality;
  RETURN_IF_ERROR(Run(connection, R"sql(
UPDATE attempts SET state = ?2, outcome = ?3, failure_class = ?4, device_seconds = ?5,
                    log_head = ?6, log_tail = ?7, end_time_ms = ?8, message = ?9,
                    nodes = ?10, step_count = ?11, step_time_low_seconds = ?12,
                    step_time_high_seconds = ?13, spread_ratio = ?14, suspect_reasons = ?15,
                    environment = ?16, environment_digest = ?17
WHERE id = ?1)sql",
                      attempt.id, Word(AttemptState::kEnded), Word(ending.outcome),
                      ending.failure_class, ending.device_time.count(), ending.log_head,
                      ending.log_tail, ending.time_ms, ending.message,
                      JoinText(ending.nodes, kNodeEnd), quality.step_count,
                      Count(quality.step_time_low), Count(quality.step_time_high),
                      quality.spread_ratio, JoinText(quality.suspect_reasons, kReasonEnd),
                      quality.environment, quality.environment_digest));
  return ReadAttempt(connection, attempt.id);
}

absl::StatusOr<AttemptRecord> Recorder::AddAttempt(const AttemptIntent& intent) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const TrialRecord trial,
                   ReadTrial(connection_.get(), intent.study_id, intent.trial_number));
  if (trial.state == TrialState::kEnded) {
    return WithReason(absl::FailedPreconditionError(
                          fmt::format("trial {} of study '{}' has ended; no attempt can begin",
                                      trial.number, trial.study_id)),
                      "TRIAL_ENDED");
  }
  RETURN_IF_ERROR(CheckStudyLives(connection_.get(), intent.study_id));
  ASSIGN_OR_RETURN(AttemptRecord attempt, InsertAttempt(connection_.get(), intent));
  RETURN_IF_ERROR(transaction.Commit());
  return attempt;
}

absl::StatusOr<AttemptRecord> Recorder::UpdateAttempt(const AttemptUpdate& update) {
  if (update.state != AttemptState::kSubmitted && update.state != AttemptState::kRunning) {
    return absl::InvalidArgumentError(
        fmt::format("state = {}; must be submitted or running", Word(update.state)));
  }
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const AttemptRecord before, ReadAttempt(connection_.get(), update.attempt_id));
  RETURN_IF_ERROR(CheckToken(before, update.fencing_token));
  RETURN_IF_ERROR(CheckOpen(connection_.get(), before));
  if (update.state < before.state) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format("attempt '{}' is {}; cannot become {}", before.id,
                                                  Word(before.state), Word(update.state))),
        "ATTEMPT_STATE");
  }
  RETURN_IF_ERROR(Run(
      connection_.get(),
      fmt::format("UPDATE attempts SET state = ?2, external_id = coalesce(?3, external_id), "
                  "nodes = coalesce(nullif(?5, ''), nodes), "
                  "{0} = coalesce({0}, ?4) WHERE id = ?1",
                  update.state == AttemptState::kSubmitted ? "submit_time_ms" : "start_time_ms"),
      update.attempt_id, Word(update.state), update.external_id, update.time_ms,
      JoinText(update.nodes, kNodeEnd)));
  ASSIGN_OR_RETURN(AttemptRecord after, ReadAttempt(connection_.get(), update.attempt_id));
  RETURN_IF_ERROR(transaction.Commit());
  return after;
}

absl::StatusOr<AttemptRecord> Recorder::FinishAttempt(const AttemptEnding& ending) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(AttemptRecord ended, EndAttempt(connection_.get(), ending));
  RETURN_IF_ERROR(transaction.Commit());
  return ended;
}

absl::StatusOr<std::vector<AttemptRecord>> Recorder::ListAttempts(
    std::string_view study_id, std::optional<int> trial_number) const {
  RETURN_IF_ERROR(CheckStudyExists(connection_.get(), study_id));
  if (trial_number.has_value()) {
    RETURN_IF_ERROR(ReadTrial(connection_.get(), study_id, *trial_number).status());
  }
  return ReadAttempts(connection_.get(), study_id, trial_number);
}

absl::StatusOr<std::vector<OpenJobs>> Recorder::CountOpenJobs() const {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT launcher, count(*), sum(CASE WHEN attempts.state = ?1 THEN 1 ELSE 0 END)
FROM studies JOIN attempts ON attempts.study_id = studies.id
WHERE studies.end_time_ms IS NULL AND attempts.end_time_ms IS NULL AND launcher <> 'replay'
GROUP BY launcher ORDER BY launcher)sql"));
  RETURN_IF_ERROR(query.Bind(Word(AttemptState::kRunning)));
  std::vector<OpenJobs> jobs;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return jobs;
    const std::int64_t running = query.Integer(2);
    jobs.push_back({.launcher = query.Text(0),
                    .waiting_count = query.Integer(1) - running,
                    .running_count = running});
  }
}

}  // namespace meshwright

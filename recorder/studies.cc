// The Recorder's calls for studies.
#include <fmt/format.h>

#include <optional>
#include <utility>
#include <vector>

#include "recorder/labels.h"
#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"

namespace meshwright {
namespace {

constexpr char kChipEnd = '\n';

// The columns in the order in which InsertRows binds and ReadStudy reads them.
constexpr char kStudyColumns[] =
    "id, state, outcome, model_name, cluster_name, chip, device_count, request_id, request_hash, "
    "error_message, owner, create_time_ms, start_time_ms, end_time_ms, search_seconds, "
    "best_step_time_seconds, gain_over_baseline_ratio, best_plan_digest, "
    "history_sequence, other_chips, creator, device_seconds_limit";
// The columns that only EditStudy writes, and the labels, which stand in a table of their own.
constexpr char kRemarkColumns[] =
    "display_name, note, edit_count, (SELECT json_group_object(key, value) FROM study_labels WHERE "
    "study_id = studies.id)";

// The revision is only counted in the journal, so that an event adds one row and changes no other.
std::string Select(bool has_messages, std::string_view rest) {
  return fmt::format(
      "SELECT (SELECT coalesce(max(revision), 0) FROM events WHERE study_id = studies.id), {}, "
      "{}{} "
      "{}",
      kStudyColumns, kRemarkColumns,
      has_messages
          ? ", question, result FROM studies JOIN study_messages ON study_messages.study_id = id"
          : " FROM studies",
      rest);
}

std::string Where(const StudyFilter& filter) {
  std::string where = "WHERE true";
  if (filter.state.has_value()) where += " AND state = ?1";
  if (filter.outcome.has_value()) where += " AND outcome = ?2";
  if (filter.text.has_value()) {
    where +=
        " AND instr(lower(id || '\n' || model_name || '\n' || cluster_name || '\n' || "
        "display_name), lower(?3)) > 0";
  }
  if (filter.chip.has_value()) {
    where += " AND (chip = ?4 OR instr('\n' || other_chips || '\n', '\n' || ?4 || '\n') > 0)";
  }
  if (filter.create_time_from_ms.has_value()) where += " AND create_time_ms >= ?5";
  if (filter.create_time_before_ms.has_value()) where += " AND create_time_ms < ?6";
  if (!filter.labels.empty()) {
    where +=
        " AND NOT EXISTS (SELECT 1 FROM json_each(?7) AS asked WHERE NOT EXISTS (SELECT 1 FROM "
        "study_labels AS label WHERE label.study_id = studies.id AND label.key = asked.key AND "
        "label.value = asked.value))";
  }
  if (filter.creator.has_value()) where += " AND creator = ?8";
  return where;
}

// Returns the name of the list that a page token is bound to.
std::string ListName(const StudyFilter& filter) {
  std::string name = "studies";
  if (filter.state.has_value()) name += fmt::format("/state={}", Word(*filter.state));
  if (filter.outcome.has_value()) name += fmt::format("/outcome={}", *filter.outcome);
  if (filter.text.has_value()) name += fmt::format("/text={}", *filter.text);
  if (filter.chip.has_value()) name += fmt::format("/chip={}", *filter.chip);
  if (filter.create_time_from_ms.has_value()) {
    name += fmt::format("/from={}", *filter.create_time_from_ms);
  }
  if (filter.create_time_before_ms.has_value()) {
    name += fmt::format("/before={}", *filter.create_time_before_ms);
  }
  if (!filter.labels.empty()) name += fmt::format("/labels={}", LabelsJson(filter.labels));
  if (filter.creator.has_value()) name += fmt::format("/creator={}", *filter.creator);
  return name;
}

std::optional<Blob> OptionalBlob(const std::optional<std::string>& bytes) {
  if (!bytes.has_value()) return std::nullopt;
  return Blob{*bytes};
}

absl::StatusOr<StudyRecord> ReadStudy(const Statement& row, bool has_messages) {
  StudyRecord study;
  study.revision = row.Integer(0);
  study.id = row.Text(1);
  ASSIGN_OR_RETURN(study.state, ReadWord<StudyState>(row, 2, fmt::format("study '{}'", study.id)));
  study.outcome = row.Text(3);
  study.model_name = row.Text(4);
  study.cluster_name = row.Text(5);
  study.chip = row.Text(6);
  study.device_count = static_cast<int>(row.Integer(7));
  study.request_id = row.OptionalText(8);
  study.request_hash = row.Text(9);
  study.error_message = row.Text(10);
  study.owner = row.Text(11);
  study.create_time_ms = row.Integer(12);
  study.start_time_ms = row.OptionalInteger(13);
  study.end_time_ms = row.OptionalInteger(14);
  study.search_time = OptionalSeconds(row, 15);
  study.best_step_time = OptionalSeconds(row, 16);
  study.gain_over_baseline = row.OptionalReal(17);
  study.best_plan_digest = row.Text(18);
  study.history_sequence = row.OptionalInteger(19);
  study.other_chips = SplitText(row.Text(20), kChipEnd);
  study.creator = row.Text(21);
  study.device_time_limit = OptionalSeconds(row, 22);
  study.remarks.display_name = row.Text(23);
  study.remarks.note = row.Text(24);
  study.remarks.edit_count = row.Integer(25);
  ASSIGN_OR_RETURN(study.remarks.labels, ReadLabels(row.Text(26), study.id));
  if (has_messages) {
    study.question = row.Text(27);
    study.result = row.OptionalText(28);
  }
  return study;
}

absl::StatusOr<StudyRecord> ReadStudyById(Connection* connection, std::string_view id) {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection, Select(true, "WHERE id = ?1")));
  RETURN_IF_ERROR(query.Bind(id));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (!is_there) return UnknownStudy(id);
  return ReadStudy(query, true);
}

// Returns the study that the same request created before, if any.
absl::StatusOr<std::optional<StudyRecord>> FindByRequest(Connection* connection,
                                                         const StudyRecord& study) {
  if (!study.request_id.has_value()) return std::nullopt;
  ASSIGN_OR_RETURN(Statement query,
                   Statement::Prepare(connection, Select(true, "WHERE request_id = ?1")));
  RETURN_IF_ERROR(query.Bind(*study.request_id));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (!is_there) return std::nullopt;
  ASSIGN_OR_RETURN(StudyRecord found, ReadStudy(query, true));
  if (found.request_hash == study.request_hash) return found;
  return WithReason(
      absl::InvalidArgumentError(fmt::format(
          "request_id = '{}'; was used by another request, which made study '{}'; must be new",
          *study.request_id, found.id)),
      "REQUEST_ID_REUSED");
}

absl::Status InsertRows(Connection* connection, const StudyRecord& study) {
  const absl::Status status =
      Run(connection,
          fmt::format("INSERT INTO studies ({}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, "
                      "?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22)",
                      kStudyColumns),
          study.id, Word(study.state), study.outcome, study.model_name, study.cluster_name,
          study.chip, study.device_count, study.request_id, study.request_hash, study.error_message,
          study.owner, study.create_time_ms, study.start_time_ms, study.end_time_ms,
          Count(study.search_time), Count(study.best_step_time), study.gain_over_baseline,
          study.best_plan_digest, study.history_sequence, JoinText(study.other_chips, kChipEnd),
          study.creator, Count(study.device_time_limit));
  if (absl::IsAlreadyExists(status)) {
    return WithReason(
        absl::AlreadyExistsError(fmt::format("study id = '{}'; exists; must be new", study.id)),
        "STUDY_EXISTS");
  }
  RETURN_IF_ERROR(status);
  return Run(connection,
             "INSERT INTO study_messages (study_id, question, result) VALUES (?1, ?2, ?3)",
             study.id, Blob{study.question}, OptionalBlob(study.result));
}

absl::Status StudyEnded(std::string_view id, StudyState state, std::string_view what) {
  return WithReason(absl::FailedPreconditionError(
                        fmt::format("study '{}' has ended ({}); {}", id, Word(state), what)),
                    "STUDY_ENDED");
}

absl::Status CheckAlive(const StudyRecord& study, StudyState next) {
  if (IsTerminal(study.state)) {
    return StudyEnded(study.id, study.state, fmt::format("cannot become {}", Word(next)));
  }
  // Otherwise the worker that starts a study could undo a cancellation that it has not seen yet.
  if (study.state == StudyState::kCancelling && next != study.state && !IsTerminal(next)) {
    return WithReason(absl::FailedPreconditionError(fmt::format(
                          "study '{}' is being cancelled; cannot become {}", study.id, Word(next))),
                      "STUDY_CANCELLING");
  }
  return absl::OkStatus();
}

absl::Status SetState(Connection* connection, const StudyUpdate& update) {
  RETURN_IF_ERROR(
      Run(connection, R"sql(
UPDATE studies
SET state = ?2, owner = coalesce(?3, owner),
    start_time_ms = CASE WHEN ?4 THEN coalesce(start_time_ms, ?5) ELSE start_time_ms END,
    lease_expires_ms = CASE WHEN ?6 THEN lease_expires_ms END,
    pause_wanted = CASE WHEN ?6 THEN pause_wanted ELSE 0 END
WHERE id = ?1)sql",
          update.study_id, Word(update.state), update.owner, update.state == StudyState::kRunning,
          update.time_ms,
          update.state == StudyState::kRunning || update.state == StudyState::kCancelling));
  return AppendStateEvent(connection, update.study_id, update.state, update.time_ms);
}

absl::Status SetEnding(Connection* connection, const StudyEnding& ending) {
  RETURN_IF_ERROR(Run(connection, R"sql(
UPDATE studies
SET state = ?2, end_time_ms = ?3, outcome = ?4, error_message = ?5, search_seconds = ?6,
    best_step_time_seconds = ?7, gain_over_baseline_ratio = ?8, best_plan_digest = ?9,
    lease_expires_ms = NULL, pause_wanted = 0
WHERE id = ?1)sql",
                      ending.study_id, Word(ending.state), ending.time_ms, ending.outcome,
                      ending.error_message, Count(ending.search_time), Count(ending.best_step_time),
                      ending.gain_over_baseline, ending.best_plan_digest));
  return Run(connection, "UPDATE study_messages SET result = ?2 WHERE study_id = ?1",
             ending.study_id, OptionalBlob(ending.result));
}

absl::Status WriteEnding(Connection* connection, const StudyEnding& ending) {
  RETURN_IF_ERROR(SetEnding(connection, ending));
  RETURN_IF_ERROR(InsertPlans(connection, ending.plans));
  RETURN_IF_ERROR(InsertEvents(connection, ending.events).status());
  return AppendStateEvent(connection, ending.study_id, ending.state, ending.time_ms);
}

absl::Status CheckBelongs(const StudyEnding& ending) {
  const auto check = [&ending](const std::string& id, std::string_view what) {
    if (id == ending.study_id) return absl::OkStatus();
    return absl::InvalidArgumentError(
        fmt::format("{}.study_id = '{}'; must be '{}'", what, id, ending.study_id));
  };
  for (const EventRecord& event : ending.events) RETURN_IF_ERROR(check(event.study_id, "event"));
  for (const PlanRecord& plan : ending.plans) RETURN_IF_ERROR(check(plan.study_id, "plan"));
  return absl::OkStatus();
}

}  // namespace

absl::Status AppendStateEvent(Connection* connection, const std::string& id, StudyState state,
                              std::int64_t time_ms) {
  const EventRecord event = {.study_id = id,
                             .time_ms = time_ms,
                             .kind = kStateEventKind,
                             .payload = std::string(Word(state))};
  return InsertEvents(connection, {&event, 1}).status();
}

absl::StatusOr<std::vector<StudyRecord>> ReadStudies(Connection* connection, std::string_view where,
                                                     std::optional<std::int64_t> parameter) {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection, Select(true, where)));
  RETURN_IF_ERROR(parameter.has_value() ? query.Bind(*parameter) : query.Bind());
  std::vector<StudyRecord> studies;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return studies;
    ASSIGN_OR_RETURN(StudyRecord study, ReadStudy(query, true));
    studies.push_back(std::move(study));
  }
}

absl::Status UnknownStudy(std::string_view id) {
  return WithReason(absl::NotFoundError(fmt::format("study '{}' does not exist", id)),
                    "UNKNOWN_STUDY");
}

absl::Status CheckStudyLives(Connection* connection, std::string_view id) {
  ASSIGN_OR_RETURN(Statement query,
                   Statement::Prepare(connection, "SELECT state FROM studies WHERE id = ?1"));
  RETURN_IF_ERROR(query.Bind(id));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (!is_there) return UnknownStudy(id);
  ASSIGN_OR_RETURN(const StudyState state,
                   ReadWord<StudyState>(query, 0, fmt::format("study '{}'", id)));
  return IsTerminal(state) ? StudyEnded(id, state, "no trial can begin") : absl::OkStatus();
}

absl::StatusOr<InsertedStudy> Recorder::InsertStudy(const StudyRecord& study) {
  if (study.id.empty()) return absl::InvalidArgumentError("study id = ''; must not be empty");
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(auto found, FindByRequest(connection_.get(), study));
  if (found.has_value()) return InsertedStudy{.study = *std::move(found), .is_new = false};
  RETURN_IF_ERROR(CheckNeverDeleted(connection_.get(), study));
  RETURN_IF_ERROR(InsertRows(connection_.get(), study));
  RETURN_IF_ERROR(AppendStateEvent(connection_.get(), study.id, study.state, study.create_time_ms));
  ASSIGN_OR_RETURN(StudyRecord stored, ReadStudyById(connection_.get(), study.id));
  RETURN_IF_ERROR(transaction.Commit());
  return InsertedStudy{.study = std::move(stored), .is_new = true};
}

absl::StatusOr<StudyRecord> Recorder::UpdateStudy(const StudyUpdate& update) {
  if (IsTerminal(update.state)) {
    return absl::InvalidArgumentError(fmt::format(
        "state = {}; must not be terminal; FinishStudy ends a study", Word(update.state)));
  }
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(StudyRecord before, ReadStudyById(connection_.get(), update.study_id));
  RETURN_IF_ERROR(CheckAlive(before, update.state));
  if (before.state == StudyState::kCancelling) return before;
  RETURN_IF_ERROR(SetState(connection_.get(), update));
  ASSIGN_OR_RETURN(StudyRecord after, ReadStudyById(connection_.get(), update.study_id));
  RETURN_IF_ERROR(transaction.Commit());
  return after;
}

absl::StatusOr<StudyRecord> Recorder::FinishStudy(const StudyEnding& ending) {
  if (!IsTerminal(ending.state)) {
    return absl::InvalidArgumentError(
        fmt::format("state = {}; must be succeeded, failed or cancelled", Word(ending.state)));
  }
  RETURN_IF_ERROR(CheckBelongs(ending));
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const StudyRecord before, ReadStudyById(connection_.get(), ending.study_id));
  RETURN_IF_ERROR(CheckAlive(before, ending.state));
  RETURN_IF_ERROR(WriteEnding(connection_.get(), ending));
  ASSIGN_OR_RETURN(StudyRecord after, ReadStudyById(connection_.get(), ending.study_id));
  RETURN_IF_ERROR(transaction.Commit());
  return after;
}

absl::StatusOr<StudyRecord> Recorder::EditStudy(const StudyEdit& edit) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(StudyRecord before, ReadStudyById(connection_.get(), edit.study_id));
  RETURN_IF_ERROR(CheckEdits(before, edit.edit_count));
  RETURN_IF_ERROR(Run(connection_.get(), R"sql(
UPDATE studies
SET display_name = coalesce(?2, display_name), note = coalesce(?3, note), edit_count = edit_count + 1
WHERE id = ?1)sql",
                      edit.study_id, edit.display_name, edit.note));
  RETURN_IF_ERROR(SetLabels(connection_.get(), edit));
  ASSIGN_OR_RETURN(StudyRecord after, ReadStudyById(connection_.get(), edit.study_id));
  if (after.remarks.labels.size() > kMaxStudyLabels) {
    return WithReason(absl::InvalidArgumentError(fmt::format(
                          "labels = {} of study '{}' with those it has; must be at most {}",
                          after.remarks.labels.size(), edit.study_id, kMaxStudyLabels)),
                      "TOO_MANY_LABELS");
  }
  RETURN_IF_ERROR(transaction.Commit());
  return after;
}

absl::StatusOr<std::int64_t> Recorder::SetStudyHistory(std::string_view study_id,
                                                       std::int64_t sequence) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  std::int64_t held = 0;
  {
    ASSIGN_OR_RETURN(Statement update, Statement::Prepare(connection_.get(), R"sql(
UPDATE studies SET history_sequence = coalesce(history_sequence, ?2) WHERE id = ?1
RETURNING history_sequence)sql"));
    RETURN_IF_ERROR(update.Bind(study_id, sequence));
    ASSIGN_OR_RETURN(const bool is_there, update.Step());
    if (!is_there) return UnknownStudy(study_id);
    held = update.Integer(0);
    RETURN_IF_ERROR(update.Run());
  }
  RETURN_IF_ERROR(transaction.Commit());
  return held;
}

absl::StatusOr<StudyRecord> Recorder::GetStudy(std::string_view id) const {
  return ReadStudyById(connection_.get(), id);
}

absl::StatusOr<StudyPage> Recorder::ListStudies(int page_size, std::string_view page_token,
                                                const StudyFilter& filter) const {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size, "page_size"));
  const std::string list = ListName(filter);
  PageKey after;
  std::string where = Where(filter);
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(after, DecodePageToken(list, page_token));
    where += " AND (create_time_ms, id) < (?9, ?10)";
  }
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(
          connection_.get(),
          Select(false, fmt::format("{} ORDER BY create_time_ms DESC, id DESC LIMIT ?11", where))));
  const std::string labels = LabelsJson(filter.labels);
  RETURN_IF_ERROR(query.Bind(OptionalWord(filter.state), filter.outcome, filter.text, filter.chip,
                             filter.create_time_from_ms, filter.create_time_before_ms, labels,
                             filter.creator, after.number, after.text, size + 1));
  ASSIGN_OR_RETURN(auto rows, ReadPage<StudyRecord>(query, size, [](const Statement& row) {
                     return ReadStudy(row, false);
                   }));
  StudyPage page = {.studies = std::move(rows.records)};
  if (rows.has_more) {
    const StudyRecord& last = page.studies.back();
    page.next_page_token = EncodePageToken(list, {.number = last.create_time_ms, .text = last.id});
  }
  return page;
}

absl::StatusOr<std::int64_t> Recorder::CountOpenStudies(std::string_view creator) const {
  ASSIGN_OR_RETURN(Statement query,
                   Statement::Prepare(
                       connection_.get(),
                       "SELECT count(*) FROM studies WHERE creator = ?1 AND end_time_ms IS NULL"));
  RETURN_IF_ERROR(query.Bind(creator));
  RETURN_IF_ERROR(query.Step().status());
  return query.Integer(0);
}

absl::StatusOr<CreatorUse> Recorder::UseOf(std::string_view creator, std::int64_t since_ms) const {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT (SELECT coalesce(sum(attempts.device_seconds), 0.0)
        FROM studies JOIN attempts ON attempts.study_id = studies.id
        WHERE creator = ?1 AND (studies.end_time_ms IS NULL OR studies.end_time_ms > ?2)
          AND attempts.end_time_ms > ?2 AND launcher <> 'replay'),
       (SELECT coalesce(sum(device_seconds), 0.0) FROM deleted_studies
        WHERE creator = ?1 AND end_time_ms > ?2),
       (SELECT coalesce(sum(CASE WHEN seconds > 0 THEN seconds ELSE 0.0 END), 0.0)
        FROM (SELECT device_seconds_limit -
                     (SELECT coalesce(sum(device_seconds), 0.0) FROM attempts
                      WHERE study_id = studies.id AND launcher <> 'replay') AS seconds
              FROM studies
              WHERE creator = ?1 AND end_time_ms IS NULL AND device_seconds_limit IS NOT NULL)
             AS rests))sql"));
  RETURN_IF_ERROR(query.Bind(creator, since_ms));
  RETURN_IF_ERROR(query.Step().status());
  return CreatorUse{.used = Seconds(query.Real(0)) + Seconds(query.Real(1)),
                    .promised = Seconds(query.Real(2))};
}

}  // namespace meshwright

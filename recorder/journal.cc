// The Recorder's calls for a study's plans and its journal.
#include <fmt/format.h>

#include <limits>
#include <optional>
#include <utility>

#include "recorder/history_records.h"
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

std::string PlanList(std::string_view study_id) { return fmt::format("plans/{}", study_id); }

constexpr char kPlanColumns[] =
    "study_id, rank, plan_key, plan_digest, state, plan, estimate, step_time_seconds, "
    "peak_memory_bytes, reserved_memory_bytes, fits";

PlanRecord ReadPlan(const Statement& row) {
  return {.study_id = row.Text(0),
          .rank = static_cast<int>(row.Integer(1)),
          .plan_key = row.Text(2),
          .plan_digest = row.Text(3),
          .state = row.Text(4),
          .plan = row.Text(5),
          .estimate = row.Text(6),
          .step_time = Seconds(row.Real(7)),
          .peak_memory = Bytes{row.Integer(8)},
          .reserved_memory = Bytes{row.Integer(9)},
          .fits = row.Integer(10) != 0};
}

absl::Status PlanError(const absl::Status& status, const PlanRecord& plan) {
  if (absl::IsNotFound(status)) return UnknownStudy(plan.study_id);
  if (!absl::IsAlreadyExists(status)) return status;
  return WithReason(absl::AlreadyExistsError(
                        fmt::format("study '{}' has a plan of rank {}", plan.study_id, plan.rank)),
                    "PLAN_EXISTS");
}

// Returns the next studies, by id, that ended before a time, up to the limit of one call.
absl::StatusOr<std::vector<std::string>> EndedStudies(Connection* connection,
                                                      std::int64_t before_ms,
                                                      std::string_view after_study) {
  constexpr int kMaxStudies = 10;
  // Only studies that have ended have an end time.
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection, R"sql(
SELECT id FROM studies WHERE end_time_ms < ?1 AND id > ?2 ORDER BY id LIMIT ?3)sql"));
  RETURN_IF_ERROR(query.Bind(before_ms, after_study, kMaxStudies));
  std::vector<std::string> studies;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return studies;
    studies.push_back(query.Text(0));
  }
}

// Deletes all estimates of the studies but the best plan and the events but the changes of state.
absl::StatusOr<DeletedEstimates> DeleteEstimatesOf(const std::vector<std::string>& studies,
                                                   Connection* connection) {
  ASSIGN_OR_RETURN(Statement plans, Statement::Prepare(connection, R"sql(
DELETE FROM plans WHERE study_id = ?1 AND rank > 1 AND state = 'estimated')sql"));
  ASSIGN_OR_RETURN(
      Statement events,
      Statement::Prepare(connection, "DELETE FROM events WHERE study_id = ?1 AND kind <> ?2"));
  DeletedEstimates deleted;
  for (const std::string& study : studies) {
    RETURN_IF_ERROR(plans.Bind(study));
    RETURN_IF_ERROR(plans.Run());
    deleted.plan_count += connection->changed_rows();
    RETURN_IF_ERROR(events.Bind(study, std::string_view(kStateEventKind)));
    RETURN_IF_ERROR(events.Run());
    deleted.event_count += connection->changed_rows();
    deleted.last_study = study;
  }
  return deleted;
}

}  // namespace

absl::Status CheckStudyExists(Connection* connection, std::string_view id) {
  ASSIGN_OR_RETURN(Statement query,
                   Statement::Prepare(connection, "SELECT 1 FROM studies WHERE id = ?1"));
  RETURN_IF_ERROR(query.Bind(id));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  return is_there ? absl::OkStatus() : UnknownStudy(id);
}

absl::Status InsertPlans(Connection* connection, std::span<const PlanRecord> plans) {
  ASSIGN_OR_RETURN(Statement insert, Statement::Prepare(connection, R"sql(
INSERT INTO plans (study_id, rank, plan_key, plan_digest, state, plan, estimate,
                   step_time_seconds, peak_memory_bytes, reserved_memory_bytes, fits)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11))sql"));
  for (const PlanRecord& plan : plans) {
    RETURN_IF_ERROR(insert.Bind(plan.study_id, plan.rank, plan.plan_key, plan.plan_digest,
                                plan.state, Blob{plan.plan}, Blob{plan.estimate},
                                plan.step_time.count(), plan.peak_memory.count,
                                plan.reserved_memory.count, plan.fits));
    const absl::Status status = insert.Run();
    if (!status.ok()) return PlanError(status, plan);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::int64_t>> InsertEvents(Connection* connection,
                                                       std::span<const EventRecord> events) {
  ASSIGN_OR_RETURN(Statement insert, Statement::Prepare(connection, R"sql(
INSERT INTO events (study_id, revision, time_ms, kind, payload)
SELECT ?1, coalesce(max(revision), 0) + 1, ?2, ?3, ?4 FROM events WHERE study_id = ?1
RETURNING revision)sql"));
  std::vector<std::int64_t> revisions;
  revisions.reserve(events.size());
  for (const EventRecord& event : events) {
    RETURN_IF_ERROR(insert.Bind(event.study_id, event.time_ms, event.kind, Blob{event.payload}));
    const auto has_row = insert.Step();
    if (absl::IsNotFound(has_row.status())) return UnknownStudy(event.study_id);
    if (!has_row.ok()) return has_row.status();
    revisions.push_back(insert.Integer(0));
    // The foreign key is checked when the statement ends.
    const absl::Status end = insert.Run();
    if (!end.ok()) return absl::IsNotFound(end) ? UnknownStudy(event.study_id) : end;
  }
  return revisions;
}

absl::StatusOr<std::vector<std::int64_t>> Recorder::AppendEvents(
    std::span<const EventRecord> events) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(std::vector<std::int64_t> revisions, InsertEvents(connection_.get(), events));
  RETURN_IF_ERROR(transaction.Commit());
  return revisions;
}

absl::StatusOr<std::optional<PlanRecord>> Recorder::FindPlan(std::string_view study_id,
                                                             int rank) const {
  RETURN_IF_ERROR(CheckStudyExists(connection_.get(), study_id));
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(
          connection_.get(),
          fmt::format("SELECT {} FROM plans WHERE study_id = ?1 AND rank = ?2", kPlanColumns)));
  RETURN_IF_ERROR(query.Bind(study_id, rank));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (!is_there) return std::nullopt;
  return ReadPlan(query);
}

absl::StatusOr<PlanPage> Recorder::ListPlans(std::string_view study_id, int page_size,
                                             std::string_view page_token) const {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size, "page_size"));
  PageKey after = {.number = std::numeric_limits<std::int64_t>::min()};
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(after, DecodePageToken(PlanList(study_id), page_token));
  }
  RETURN_IF_ERROR(CheckStudyExists(connection_.get(), study_id));
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(connection_.get(), fmt::format("SELECT {} FROM plans WHERE study_id = ?1 "
                                                        "AND rank > ?2 ORDER BY rank LIMIT ?3",
                                                        kPlanColumns)));
  RETURN_IF_ERROR(query.Bind(study_id, after.number, size + 1));
  ASSIGN_OR_RETURN(auto rows, ReadPage<PlanRecord>(query, size, ReadPlan));
  PlanPage page = {.plans = std::move(rows.records)};
  if (rows.has_more) {
    page.next_page_token = EncodePageToken(PlanList(study_id), {.number = page.plans.back().rank});
  }
  return page;
}

absl::StatusOr<std::vector<EventRecord>> Recorder::ListEvents(std::string_view study_id,
                                                              std::int64_t after_revision,
                                                              int limit) const {
  ASSIGN_OR_RETURN(const int size, PageSize(limit, "limit"));
  RETURN_IF_ERROR(CheckStudyExists(connection_.get(), study_id));
  ASSIGN_OR_RETURN(Statement query,
                   Statement::Prepare(connection_.get(),
                                      "SELECT study_id, revision, time_ms, kind, payload FROM "
                                      "events WHERE study_id = ?1 AND revision > ?2 ORDER BY "
                                      "revision LIMIT ?3"));
  RETURN_IF_ERROR(query.Bind(study_id, after_revision, size));
  std::vector<EventRecord> events;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return events;
    events.push_back({.study_id = query.Text(0),
                      .revision = query.Integer(1),
                      .time_ms = query.Integer(2),
                      .kind = query.Text(3),
                      .payload = query.Text(4)});
  }
}

absl::StatusOr<std::map<std::string, std::int64_t>> Recorder::LastRevisions(
    std::span<const std::string> study_ids) const {
  std::map<std::string, std::int64_t> revisions;
  if (study_ids.empty()) return revisions;
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT study_id, max(revision) FROM events
WHERE study_id IN (SELECT value FROM json_each(?1)) GROUP BY study_id)sql"));
  RETURN_IF_ERROR(query.Bind(IdsJson(study_ids)));
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return revisions;
    revisions.emplace(query.Text(0), query.Integer(1));
  }
}

absl::StatusOr<std::int64_t> Recorder::CountPlans(std::string_view study_id) const {
  RETURN_IF_ERROR(CheckStudyExists(connection_.get(), study_id));
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(connection_.get(), "SELECT count(*) FROM plans WHERE study_id = ?1"));
  RETURN_IF_ERROR(query.Bind(study_id));
  RETURN_IF_ERROR(query.Step().status());
  return query.Integer(0);
}

absl::Status CheckEdits(const StudyRecord& study, std::optional<std::int64_t> edit_count) {
  if (edit_count.value_or(study.remarks.edit_count) == study.remarks.edit_count) {
    return absl::OkStatus();
  }
  return WithReason(absl::AbortedError(fmt::format("study '{}' was changed by somebody else since "
                                                   "it was read; read it again",
                                                   study.id)),
                    "STALE_STUDY");
}

absl::Status CheckNeverDeleted(Connection* connection, const StudyRecord& study) {
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(connection,
                         "SELECT id FROM deleted_studies WHERE id = ?1 OR request_id = ?2"));
  RETURN_IF_ERROR(query.Bind(study.id, study.request_id));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (!is_there) return absl::OkStatus();
  return WithReason(absl::FailedPreconditionError(fmt::format(
                        "study '{}' was deleted; neither its id nor its request_id can be used "
                        "again",
                        query.Text(0))),
                    "STUDY_DELETED");
}

namespace {

// Retracts those of a study's measurements that count, and returns their number.
absl::StatusOr<int> RetractMeasurementsOf(Connection* connection, const std::string& study_id,
                                          std::int64_t time_ms) {
  std::vector<std::string> ids;
  {
    ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection, R"sql(
SELECT id FROM measurements
WHERE study_id = ?1 AND id NOT IN (SELECT measurement_id FROM retractions)
ORDER BY sequence)sql"));
    RETURN_IF_ERROR(query.Bind(study_id));
    while (true) {
      ASSIGN_OR_RETURN(const bool has_row, query.Step());
      if (!has_row) break;
      ids.push_back(query.Text(0));
    }
  }
  const Retraction retraction = {.time_ms = time_ms,
                                 .reason = fmt::format("study {} was deleted", study_id)};
  for (const std::string& id : ids) RETURN_IF_ERROR(InsertRetraction(connection, id, retraction));
  return static_cast<int>(ids.size());
}

}  // namespace

absl::StatusOr<DeletedStudy> Recorder::DeleteStudy(const StudyDeletion& deletion) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const StudyRecord study, GetStudy(deletion.study_id));
  if (!IsTerminal(study.state)) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format(
            "study '{}' is {}; only a study that has ended can be deleted: cancel it first",
            study.id, Word(study.state))),
        "STUDY_NOT_ENDED");
  }
  RETURN_IF_ERROR(CheckEdits(study, deletion.edit_count));
  DeletedStudy deleted;
  {
    ASSIGN_OR_RETURN(
        Statement count,
        Statement::Prepare(connection_.get(), "SELECT count(*) FROM trials WHERE study_id = ?1"));
    RETURN_IF_ERROR(count.Bind(study.id));
    RETURN_IF_ERROR(count.Step().status());
    deleted.trial_count = static_cast<int>(count.Integer(0));
  }
  if (deletion.retracts_measurements) {
    ASSIGN_OR_RETURN(deleted.retracted_count,
                     RetractMeasurementsOf(connection_.get(), study.id, deletion.time_ms));
  }
  RETURN_IF_ERROR(Run(connection_.get(), R"sql(
INSERT INTO deleted_studies (id, request_id, delete_time_ms, creator, end_time_ms,
                             last_fencing_token, device_seconds)
SELECT ?1, ?2, ?3, ?4, ?5, coalesce(max(fencing_token), 0),
       coalesce(sum(CASE WHEN launcher <> 'replay' THEN device_seconds ELSE 0.0 END), 0.0)
FROM attempts WHERE study_id = ?1)sql",
                      study.id, study.request_id, deletion.time_ms, study.creator,
                      study.end_time_ms.value_or(deletion.time_ms)));
  // The rows that refer to the study go with it.
  RETURN_IF_ERROR(Run(connection_.get(), "DELETE FROM studies WHERE id = ?1", study.id));
  RETURN_IF_ERROR(transaction.Commit());
  return deleted;
}

absl::StatusOr<DeletedEstimates> Recorder::DeleteEstimates(std::int64_t before_ms,
                                                           std::string_view after_study) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const std::vector<std::string> studies,
                   EndedStudies(connection_.get(), before_ms, after_study));
  ASSIGN_OR_RETURN(const DeletedEstimates deleted, DeleteEstimatesOf(studies, connection_.get()));
  RETURN_IF_ERROR(transaction.Commit());
  return deleted;
}

}  // namespace meshwright

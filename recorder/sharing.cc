// The Recorder's calls for the processes that run studies: their leases, and what they leave
// behind.
#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recorder/leases.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "search_space/base/status.h"
#include "search_space/spec/choices.h"

namespace meshwright {
namespace {

absl::Status SetStates(Connection* connection, std::span<const std::string> ids,
                       const StudyUpdate& update) {
  if (ids.empty()) return absl::OkStatus();
  const std::string json = IdsJson(ids);
  RETURN_IF_ERROR(Run(connection, R"sql(
UPDATE studies SET state = ?2, owner = coalesce(?3, owner), lease_expires_ms = NULL
WHERE id IN (SELECT value FROM json_each(?1)))sql",
                      json, Word(update.state), update.owner));
  return Run(connection, R"sql(
INSERT INTO events (study_id, revision, time_ms, kind, payload)
SELECT ids.value,
       (SELECT coalesce(max(revision), 0) + 1 FROM events WHERE study_id = ids.value), ?2, ?3, ?4
FROM json_each(?1) AS ids)sql",
             json, update.time_ms, std::string_view(kStateEventKind), Blob{Word(update.state)});
}

// The study keeps its results so far; only its end is missing.
absl::Status CancelOrphan(Connection* connection, const StudyRecord& study, std::int64_t time_ms) {
  RETURN_IF_ERROR(Run(connection, R"sql(
UPDATE studies
SET state = 'cancelled', outcome = 'cancelled', end_time_ms = ?2, lease_expires_ms = NULL,
    pause_wanted = 0
WHERE id = ?1)sql",
                      study.id, time_ms));
  return AppendStateEvent(connection, study.id, StudyState::kCancelled, time_ms);
}

// Ends the lease of a study that stays as it is, so that another process may claim it.
absl::Status EndLease(Connection* connection, const std::string& id) {
  return Run(connection, "UPDATE studies SET lease_expires_ms = NULL WHERE id = ?1", id);
}

// Makes studies that nobody runs any more interrupted, or cancelled if they were being cancelled,
// and brings the records up to date.
absl::Status Interrupt(Connection* connection, std::vector<StudyRecord>& studies,
                       std::int64_t time_ms,
                       const std::function<bool(const std::string& id)>& has_job_left) {
  std::vector<std::string> interrupted;
  for (StudyRecord& study : studies) {
    if (study.state != StudyState::kCancelling) {
      interrupted.push_back(study.id);
      study.state = StudyState::kInterrupted;
      ++study.revision;
      continue;
    }
    if (has_job_left && has_job_left(study.id)) {
      RETURN_IF_ERROR(EndLease(connection, study.id));
      continue;
    }
    RETURN_IF_ERROR(CancelOrphan(connection, study, time_ms));
    study.state = StudyState::kCancelled;
    study.outcome = Word(study.state);
    study.end_time_ms = time_ms;
    ++study.revision;
  }
  return SetStates(connection, interrupted,
                   {.state = StudyState::kInterrupted, .time_ms = time_ms});
}

absl::Status StaleLease(const StudyLease& lease) {
  return WithReason(
      absl::FailedPreconditionError(fmt::format(
          "study '{}' is no longer leased under token {}: another server has it, or it was deleted",
          lease.study_id, lease.token)),
      "STALE_LEASE");
}

}  // namespace

std::string IdsJson(std::span<const std::string> ids) {
  return nlohmann::json(std::vector<std::string>(ids.begin(), ids.end()))
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<std::vector<StudyRecord>> Recorder::InterruptOrphans(
    const std::function<bool(std::string_view owner)>& is_alive, std::int64_t time_ms,
    const std::function<bool(const std::string& id)>& has_job_left) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  // The studies that some process should be working on; the index studies_alive has the same words.
  ASSIGN_OR_RETURN(std::vector<StudyRecord> orphans,
                   ReadStudies(connection_.get(),
                               "WHERE state IN ('queued', 'running', 'cancelling') ORDER BY id"));
  std::erase_if(orphans, [&](const StudyRecord& study) { return is_alive(study.owner); });
  RETURN_IF_ERROR(Interrupt(connection_.get(), orphans, time_ms, has_job_left));
  RETURN_IF_ERROR(transaction.Commit());
  return orphans;
}

absl::StatusOr<std::vector<StudyRecord>> Recorder::InterruptExpired(
    std::int64_t time_ms, const std::function<bool(const std::string& id)>& has_job_left) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const std::int64_t now, connection_->TimeMs());
  ASSIGN_OR_RETURN(std::vector<StudyRecord> expired,
                   ReadStudies(connection_.get(), "WHERE lease_expires_ms < ?1 ORDER BY id", now));
  RETURN_IF_ERROR(Interrupt(connection_.get(), expired, time_ms, has_job_left));
  RETURN_IF_ERROR(transaction.Commit());
  return expired;
}

absl::StatusOr<bool> Recorder::HasAbandonedStudies() const {
  ASSIGN_OR_RETURN(const std::int64_t now, connection_->TimeMs());
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT (SELECT count(*) FROM studies WHERE lease_expires_ms < ?1) +
       (SELECT count(*) FROM studies WHERE state = 'interrupted'))sql"));
  RETURN_IF_ERROR(query.Bind(now));
  RETURN_IF_ERROR(query.Step().status());
  return query.Integer(0) > 0;
}

absl::StatusOr<std::vector<InterruptedStudy>> Recorder::ListInterrupted() const {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT id, question, pause_wanted, creator,
       (SELECT count(*) FROM events
        WHERE study_id = studies.id AND kind = ?1 AND payload = ?2)
FROM studies JOIN study_messages ON study_messages.study_id = studies.id
WHERE state = 'interrupted'
ORDER BY create_time_ms, id)sql"));
  const std::string_view word = Word(StudyState::kInterrupted);
  RETURN_IF_ERROR(query.Bind(std::string_view(kStateEventKind), Blob{word}));
  std::vector<InterruptedStudy> studies;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return studies;
    studies.push_back({.id = query.Text(0),
                       .creator = query.Text(3),
                       .question = query.Text(1),
                       .interruption_count = static_cast<int>(query.Integer(4)),
                       .is_to_pause = query.Integer(2) != 0});
  }
}

absl::Status Recorder::RequeueStudies(std::span<const std::string> ids, std::string_view owner,
                                      std::int64_t time_ms) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  RETURN_IF_ERROR(
      SetStates(connection_.get(), ids,
                {.state = StudyState::kQueued, .time_ms = time_ms, .owner = std::string(owner)}));
  return transaction.Commit();
}

absl::StatusOr<ClaimedStudy> Recorder::ClaimStudy(const StudyClaim& claim) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const StudyRecord before, GetStudy(claim.study_id));
  ASSIGN_OR_RETURN(const bool is_leased, IsLeased(claim.study_id));
  const bool waits = before.state == StudyState::kQueued ||
                     (before.state == StudyState::kCancelling && !is_leased);
  if (!waits) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format("study '{}' is {}; no server can take it up",
                                                  before.id, Word(before.state))),
        "STUDY_TAKEN");
  }
  std::int64_t expires = std::numeric_limits<std::int64_t>::max();
  if (claim.lease_ms.has_value()) {
    ASSIGN_OR_RETURN(const std::int64_t now, connection_->TimeMs());
    expires = now + *claim.lease_ms;
  }
  if (before.state == StudyState::kQueued) {
    RETURN_IF_ERROR(
        UpdateStudy(
            {.study_id = claim.study_id, .state = StudyState::kRunning, .time_ms = claim.time_ms})
            .status());
  }
  ClaimedStudy claimed = {.lease = {.study_id = claim.study_id}};
  {
    ASSIGN_OR_RETURN(Statement update, Statement::Prepare(connection_.get(), R"sql(
UPDATE studies SET owner = ?2, lease_token = lease_token + 1, lease_expires_ms = ?3
WHERE id = ?1
RETURNING lease_token)sql"));
    RETURN_IF_ERROR(update.Bind(claim.study_id, claim.owner, expires));
    RETURN_IF_ERROR(update.Step().status());
    claimed.lease.token = update.Integer(0);
    RETURN_IF_ERROR(update.Run());
  }
  ASSIGN_OR_RETURN(claimed.study, GetStudy(claim.study_id));
  RETURN_IF_ERROR(transaction.Commit());
  return claimed;
}

absl::StatusOr<std::vector<LeaseStanding>> Recorder::ReadLeases(
    std::span<const StudyLease> leases) const {
  std::vector<LeaseStanding> standings(leases.size());
  if (leases.empty()) return standings;
  std::vector<std::string> ids;
  std::unordered_map<std::string_view, std::size_t> places;
  for (std::size_t i = 0; i < leases.size(); ++i) {
    ids.push_back(leases[i].study_id);
    places.emplace(leases[i].study_id, i);
  }
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT id, state, lease_token, pause_wanted FROM studies
WHERE id IN (SELECT value FROM json_each(?1)) AND lease_expires_ms IS NOT NULL)sql"));
  RETURN_IF_ERROR(query.Bind(IdsJson(ids)));
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return standings;
    const std::size_t place = places.at(query.Text(0));
    ASSIGN_OR_RETURN(standings[place].state,
                     ReadWord<StudyState>(query, 1, fmt::format("study '{}'", query.Text(0))));
    standings[place].is_held = query.Integer(2) == leases[place].token;
    standings[place].is_to_pause = query.Integer(3) != 0;
  }
}

absl::StatusOr<LeaseStanding> Recorder::CheckLease(const StudyLease& lease) const {
  ASSIGN_OR_RETURN(const std::vector<LeaseStanding> standings, ReadLeases({&lease, 1}));
  if (!standings.front().is_held) return StaleLease(lease);
  return standings.front();
}

absl::StatusOr<std::vector<bool>> Recorder::RenewLeases(std::span<const StudyLease> leases,
                                                        std::int64_t lease_ms) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(const std::int64_t now, connection_->TimeMs());
  ASSIGN_OR_RETURN(Statement renew, Statement::Prepare(connection_.get(), R"sql(
UPDATE studies SET lease_expires_ms = ?3
WHERE id = ?1 AND lease_token = ?2 AND lease_expires_ms IS NOT NULL)sql"));
  std::vector<bool> are_held;
  for (const StudyLease& lease : leases) {
    RETURN_IF_ERROR(renew.Bind(lease.study_id, lease.token, now + lease_ms));
    RETURN_IF_ERROR(renew.Run());
    are_held.push_back(connection_->changed_rows() > 0);
  }
  RETURN_IF_ERROR(transaction.Commit());
  return are_held;
}

absl::Status Recorder::ReleaseLease(const StudyLease& lease) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  RETURN_IF_ERROR(CheckLease(lease).status());
  RETURN_IF_ERROR(EndLease(connection_.get(), lease.study_id));
  return transaction.Commit();
}

absl::StatusOr<bool> Recorder::IsLeased(std::string_view study_id) const {
  ASSIGN_OR_RETURN(Statement query,
                   Statement::Prepare(connection_.get(),
                                      "SELECT 1 FROM studies WHERE id = ?1 AND lease_expires_ms IS "
                                      "NOT NULL"));
  RETURN_IF_ERROR(query.Bind(study_id));
  return query.Step();
}

absl::Status Recorder::SetPauseWanted(std::string_view study_id, bool is_wanted) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  RETURN_IF_ERROR(Run(connection_.get(),
                      "UPDATE studies SET pause_wanted = ?2 WHERE id = ?1 AND pause_wanted <> ?2",
                      study_id, static_cast<std::int64_t>(is_wanted)));
  return transaction.Commit();
}

absl::StatusOr<std::vector<std::string>> Recorder::ListClaimable() const {
  // The three states are those of the index studies_alive, which the planner knows by their words.
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection_.get(), R"sql(
SELECT id FROM studies
WHERE state IN ('queued', 'running', 'cancelling') AND lease_expires_ms IS NULL
  AND state <> 'running'
ORDER BY row_number() OVER (PARTITION BY creator ORDER BY create_time_ms, id), create_time_ms, id
)sql"));
  RETURN_IF_ERROR(query.Bind());
  std::vector<std::string> ids;
  while (true) {
    ASSIGN_OR_RETURN(const bool has_row, query.Step());
    if (!has_row) return ids;
    ids.push_back(query.Text(0));
  }
}

}  // namespace meshwright

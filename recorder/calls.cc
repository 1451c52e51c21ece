// The Recorder's calls for the calls of clients.
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "recorder/call_records.h"
#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;
// The events that one call deletes at most, so that others can use the store meanwhile.
constexpr int kDeletedTogether = 10'000;

// Returns the first answer to a call, or nullopt if it is new.
absl::StatusOr<std::optional<std::string>> FindAnswer(Connection* connection, const CallKey& key) {
  ASSIGN_OR_RETURN(Statement query, Statement::Prepare(connection,
                                                       "SELECT method, request_hash, response FROM "
                                                       "answered_requests WHERE request_id = ?1"));
  RETURN_IF_ERROR(query.Bind(*key.request_id));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (!is_there) return std::nullopt;
  if (query.Text(0) == key.method && query.Text(1) == key.request_hash) return query.Text(2);
  return WithReason(absl::InvalidArgumentError(
                        fmt::format("request_id = '{}'; was used for another request ({}); "
                                    "must be new",
                                    *key.request_id, query.Text(0))),
                    "REQUEST_ID_REUSED");
}

absl::Status KeepAnswer(Connection* connection, const CallKey& key, const std::string& answer) {
  RETURN_IF_ERROR(Run(connection, "DELETE FROM answered_requests WHERE time_ms < ?1",
                      key.time_ms - kAnswerDays * kDayMs));
  return Run(connection, "INSERT INTO answered_requests VALUES (?1, ?2, ?3, ?4, ?5)",
             *key.request_id, key.method, key.request_hash, Blob{answer}, key.time_ms);
}

std::string Where(const AuditFilter& filter) {
  std::string where = "WHERE true";
  if (filter.study_id.has_value()) where += " AND study_id = ?1";
  if (filter.caller.has_value()) where += " AND caller = ?2";
  if (filter.method.has_value()) where += " AND method = ?3";
  if (filter.time_from_ms.has_value()) where += " AND time_ms >= ?4";
  if (filter.time_before_ms.has_value()) where += " AND time_ms < ?5";
  return where;
}

// Returns the name of the list that a page token is bound to.
std::string ListName(const AuditFilter& filter) {
  std::string name = "audit_events";
  if (filter.study_id.has_value()) name += fmt::format("/study={}", *filter.study_id);
  if (filter.caller.has_value()) name += fmt::format("/caller={}", *filter.caller);
  if (filter.method.has_value()) name += fmt::format("/method={}", *filter.method);
  if (filter.time_from_ms.has_value()) name += fmt::format("/from={}", *filter.time_from_ms);
  if (filter.time_before_ms.has_value()) name += fmt::format("/before={}", *filter.time_before_ms);
  return name;
}

absl::StatusOr<AuditRecord> ReadAuditRow(const Statement& row) {
  return AuditRecord{.sequence = row.Integer(0),
                     .time_ms = row.Integer(1),
                     .caller = row.Text(2),
                     .role = row.Text(3),
                     .peer = row.Text(4),
                     .protocol = row.Text(5),
                     .method = row.Text(6),
                     .study_id = row.Text(7),
                     .code = row.Text(8),
                     .reason = row.Text(9)};
}

}  // namespace

absl::StatusOr<std::optional<std::string>> Recorder::FirstAnswer(const CallKey& key) const {
  if (!key.request_id.has_value()) return std::nullopt;
  return FindAnswer(connection_.get(), key);
}

absl::StatusOr<std::string> Recorder::AnswerOnce(
    const CallKey& key, const std::function<absl::StatusOr<std::string>()>& work) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  if (key.request_id.has_value()) {
    ASSIGN_OR_RETURN(auto found, FindAnswer(connection_.get(), key));
    if (found.has_value()) return *std::move(found);
  }
  ASSIGN_OR_RETURN(std::string answer, work());
  if (key.request_id.has_value()) {
    RETURN_IF_ERROR(KeepAnswer(connection_.get(), key, answer));
  }
  RETURN_IF_ERROR(transaction.Commit());
  return answer;
}

absl::Status Recorder::AppendAuditEvent(const AuditRecord& event) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  RETURN_IF_ERROR(Run(connection_.get(), R"sql(
INSERT INTO audit_events (time_ms, caller, role, peer, protocol, method, study_id, code, reason)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9))sql",
                      event.time_ms, event.caller, event.role, event.peer, event.protocol,
                      event.method, event.study_id, event.code, event.reason));
  return transaction.Commit();
}

absl::StatusOr<AuditPage> Recorder::ListAuditEvents(const AuditFilter& filter, int page_size,
                                                    std::string_view page_token) const {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size, "page_size"));
  const std::string list = ListName(filter);
  std::string where = Where(filter);
  PageKey after;
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(after, DecodePageToken(list, page_token));
    where += " AND sequence < ?6";
  }
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(connection_.get(),
                         fmt::format("SELECT sequence, time_ms, caller, role, peer, protocol, "
                                     "method, study_id, code, reason FROM audit_events {} ORDER BY "
                                     "sequence DESC LIMIT ?7",
                                     where)));
  RETURN_IF_ERROR(query.Bind(filter.study_id, filter.caller, filter.method, filter.time_from_ms,
                             filter.time_before_ms, after.number, size + 1));
  ASSIGN_OR_RETURN(auto rows, ReadPage<AuditRecord>(query, size, ReadAuditRow));
  AuditPage page = {.events = std::move(rows.records)};
  if (rows.has_more) {
    page.next_page_token = EncodePageToken(list, {.number = page.events.back().sequence});
  }
  return page;
}

absl::StatusOr<std::int64_t> Recorder::DeleteAuditEvents(std::int64_t before_ms) {
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  RETURN_IF_ERROR(Run(connection_.get(), R"sql(
DELETE FROM audit_events
WHERE sequence IN (SELECT sequence FROM audit_events WHERE time_ms < ?1 LIMIT ?2))sql",
                      before_ms, kDeletedTogether));
  const std::int64_t count = connection_->changed_rows();
  RETURN_IF_ERROR(transaction.Commit());
  return count;
}

}  // namespace meshwright

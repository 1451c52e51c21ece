#include "recorder/schema.h"

#include <fmt/format.h>

#include <string_view>

#include "recorder/sql.h"
#include "search_space/status.h"

namespace meshwright {
namespace {

// One step from layout `from` to `from + 1`. A new store takes every step, so there is one way to
// the newest layout. A step that has been released is never edited; a change is a new row, and a
// test that opens a file of the old layout.
struct Migration {
  int from;
  std::string_view sql;
};

constexpr Migration kMigrations[] = {
    // Version 1: studies, their plans and their journal, without idempotent requests.
    {0, R"sql(
CREATE TABLE studies (
  id TEXT PRIMARY KEY,
  state TEXT NOT NULL,
  outcome TEXT NOT NULL,
  model_name TEXT NOT NULL,
  cluster_name TEXT NOT NULL,
  chip TEXT NOT NULL,
  device_count INTEGER NOT NULL,
  owner TEXT NOT NULL,
  create_time_ms INTEGER NOT NULL,
  start_time_ms INTEGER,
  end_time_ms INTEGER,
  best_step_time_seconds REAL,
  gain_over_baseline_ratio REAL,
  best_plan_digest TEXT NOT NULL,
  error_message TEXT NOT NULL
) STRICT;
CREATE INDEX studies_by_create_time ON studies (create_time_ms, id);
-- The few studies that somebody should be running; the words are those of Orphans in studies.cc.
CREATE INDEX studies_alive ON studies (id) WHERE state IN ('queued', 'running', 'cancelling');

-- Apart from the studies, so that lists and changes of state do not drag the bytes along.
CREATE TABLE study_messages (
  study_id TEXT PRIMARY KEY REFERENCES studies (id) ON DELETE CASCADE,
  question BLOB NOT NULL,
  result BLOB
) STRICT;

CREATE TABLE plans (
  study_id TEXT NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  rank INTEGER NOT NULL,
  plan_key TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  state TEXT NOT NULL,
  step_time_seconds REAL NOT NULL,
  peak_memory_bytes INTEGER NOT NULL,
  reserved_memory_bytes INTEGER NOT NULL,
  fits INTEGER NOT NULL,
  plan BLOB NOT NULL,
  estimate BLOB NOT NULL,
  UNIQUE (study_id, rank)
) STRICT;

CREATE TABLE events (
  study_id TEXT NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  revision INTEGER NOT NULL,
  time_ms INTEGER NOT NULL,
  kind TEXT NOT NULL,
  payload BLOB NOT NULL,
  PRIMARY KEY (study_id, revision)
) STRICT, WITHOUT ROWID;
)sql"},
    // Version 2: the same request sent twice makes one study, and the time that the search took.
    {1, R"sql(
ALTER TABLE studies ADD COLUMN request_id TEXT;
ALTER TABLE studies ADD COLUMN request_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN search_seconds REAL;
CREATE UNIQUE INDEX studies_by_request_id ON studies (request_id) WHERE request_id IS NOT NULL;
)sql"},
};
static_assert(std::size(kMigrations) == kSchemaVersion);

absl::Status ForeignStore(const std::string& path, std::string_view why) {
  return WithReason(
      absl::FailedPreconditionError(fmt::format(
          "'{}' is not a Meshwright store: {}; name another file with --db FILE", path, why)),
      "FOREIGN_STORE");
}

}  // namespace

absl::StatusOr<int> CheckIdentity(sqlite3* connection, const std::string& path) {
  const auto application_id = QueryInteger(connection, "PRAGMA application_id");
  if (absl::IsDataLoss(application_id.status())) {
    return ForeignStore(path, "it is not an SQLite file");
  }
  if (!application_id.ok()) return application_id.status();
  ASSIGN_OR_RETURN(const std::int64_t version, QueryInteger(connection, "PRAGMA user_version"));
  if (*application_id != kStoreApplicationId) {
    ASSIGN_OR_RETURN(const std::int64_t table_count,
                     QueryInteger(connection, "SELECT count(*) FROM sqlite_schema"));
    if (table_count == 0 && *application_id == 0 && version == 0) return 0;
    return ForeignStore(path, fmt::format("its SQLite application_id is {}, not {}",
                                          *application_id, kStoreApplicationId));
  }
  if (version > kSchemaVersion) {
    return WithReason(
        absl::FailedPreconditionError(fmt::format(
            "store '{}' has schema version {}, this program knows {}; use the newer program that "
            "wrote it, or name another file with --db FILE",
            path, version, kSchemaVersion)),
        "NEWER_STORE");
  }
  return static_cast<int>(version);
}

absl::Status Migrate(sqlite3* connection, int version) {
  if (version == kSchemaVersion) return absl::OkStatus();
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection));
  for (const Migration& step : kMigrations) {
    if (step.from >= version) RETURN_IF_ERROR(Execute(connection, std::string(step.sql)));
  }
  RETURN_IF_ERROR(Execute(connection, fmt::format("PRAGMA application_id = {};"
                                                  "PRAGMA user_version = {};",
                                                  kStoreApplicationId, kSchemaVersion)));
  return transaction.Commit();
}

}  // namespace meshwright

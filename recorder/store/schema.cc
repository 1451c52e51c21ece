#include "recorder/store/schema.h"

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "recorder/sql/postgres_text.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

// One step from layout `from` to `from + 1`. A new store takes every step, so there is only one way
// to the newest layout. A released step is never edited: a change is a new row, with a test that
// opens a file of the old layout.
struct Migration {
  int from;
  std::string_view sql;
  // Replaces the text on PostgreSQL, which changes a table where SQLite needs a new one.
  std::string_view on_postgres = {};
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
    // Version 2: sending the same request twice creates one study; and the duration of the search.
    {1, R"sql(
ALTER TABLE studies ADD COLUMN request_id TEXT;
ALTER TABLE studies ADD COLUMN request_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN search_seconds REAL;
CREATE UNIQUE INDEX studies_by_request_id ON studies (request_id) WHERE request_id IS NOT NULL;
)sql"},
    // Version 3: measurements and calibrations; trials and their attempts.
    {2, R"sql(
ALTER TABLE studies ADD COLUMN history_sequence INTEGER;

CREATE TABLE chips (
  id TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  first_seen_ms INTEGER NOT NULL,
  PRIMARY KEY (id, fingerprint)
) STRICT, WITHOUT ROWID;

CREATE TABLE clusters (
  hardware_fingerprint TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  chip TEXT NOT NULL,
  device_count INTEGER NOT NULL,
  first_seen_ms INTEGER NOT NULL,
  last_seen_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE questions (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  model_name TEXT NOT NULL,
  cluster_name TEXT NOT NULL,
  chip TEXT NOT NULL,
  framework TEXT NOT NULL,
  framework_version TEXT NOT NULL,
  device_count INTEGER NOT NULL,
  job_fingerprint TEXT NOT NULL,
  hardware_fingerprint TEXT NOT NULL REFERENCES clusters (hardware_fingerprint),
  software_fingerprint TEXT NOT NULL,
  chip_fingerprint TEXT NOT NULL,
  question BLOB NOT NULL
) STRICT;

-- Columns that lists are filtered by repeat what the questions say: rows are never changed, so the two
-- cannot part, and no list has to join before it knows where its page ends. AUTOINCREMENT: a number
-- is never used twice. Studies may be gone or in another store, so study_id refers to nothing.
CREATE TABLE measurements (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  question_id INTEGER NOT NULL REFERENCES questions (id),
  chip TEXT NOT NULL,
  framework TEXT NOT NULL,
  model_name TEXT NOT NULL,
  job_fingerprint TEXT NOT NULL,
  study_id TEXT,
  plan_key TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  plan BLOB NOT NULL,
  outcome TEXT NOT NULL,
  step_time_seconds REAL,
  peak_memory_bytes INTEGER,
  expected_step_time_seconds REAL,
  expected_low_seconds REAL,
  expected_high_seconds REAL,
  expected_peak_memory_bytes INTEGER,
  calibration_id TEXT NOT NULL,
  device_seconds REAL NOT NULL,
  time_ms INTEGER NOT NULL,
  request_id TEXT,
  request_hash TEXT NOT NULL,
  job_name TEXT NOT NULL,
  note TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX measurements_by_request_id ON measurements (request_id)
  WHERE request_id IS NOT NULL;
-- Each ends in the sequence, which is the row's number: newest first is an index walked backwards.
CREATE INDEX measurements_of_job ON measurements (job_fingerprint);
CREATE INDEX measurements_of_study ON measurements (study_id) WHERE study_id IS NOT NULL;
CREATE INDEX measurements_of_model ON measurements (model_name);
CREATE INDEX measurements_of_chip ON measurements (chip);
CREATE INDEX measurements_of_framework ON measurements (chip, framework);
CREATE INDEX measurements_of_outcome ON measurements (outcome);
CREATE INDEX fastest_measurements ON measurements (step_time_seconds)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX fastest_measurements_of_job ON measurements (job_fingerprint, step_time_seconds)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX fastest_measurements_of_study ON measurements (study_id, step_time_seconds)
  WHERE step_time_seconds IS NOT NULL AND study_id IS NOT NULL;
CREATE INDEX fastest_measurements_of_model ON measurements (model_name, step_time_seconds)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX fastest_measurements_of_chip ON measurements (chip, step_time_seconds)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX fastest_measurements_of_framework
  ON measurements (chip, framework, step_time_seconds) WHERE step_time_seconds IS NOT NULL;

CREATE TABLE trials (
  study_id TEXT NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  plan_key TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  plan BLOB NOT NULL,
  expected_step_time_seconds REAL NOT NULL,
  success_probability_ratio REAL NOT NULL,
  state TEXT NOT NULL,
  outcome TEXT,
  step_time_seconds REAL,
  peak_memory_bytes INTEGER,
  device_seconds REAL NOT NULL,
  start_time_ms INTEGER NOT NULL,
  end_time_ms INTEGER,
  measurement_sequence INTEGER REFERENCES measurements (sequence),
  UNIQUE (study_id, number),
  UNIQUE (study_id, plan_digest)
) STRICT;
CREATE INDEX fastest_trials ON trials (study_id, step_time_seconds, number)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX trials_by_outcome ON trials (study_id, outcome, number);
CREATE INDEX trials_by_state ON trials (study_id, state, number);

CREATE TABLE attempts (
  id TEXT PRIMARY KEY,
  study_id TEXT NOT NULL,
  trial_number INTEGER NOT NULL,
  number INTEGER NOT NULL,
  fencing_token INTEGER NOT NULL UNIQUE,
  state TEXT NOT NULL,
  launcher TEXT NOT NULL,
  external_id TEXT NOT NULL,
  create_time_ms INTEGER NOT NULL,
  submit_time_ms INTEGER,
  start_time_ms INTEGER,
  end_time_ms INTEGER,
  outcome TEXT,
  failure_class TEXT NOT NULL,
  device_seconds REAL NOT NULL,
  log_head TEXT NOT NULL,
  log_tail TEXT NOT NULL,
  UNIQUE (study_id, trial_number, number),
  FOREIGN KEY (study_id, trial_number) REFERENCES trials (study_id, number) ON DELETE CASCADE
) STRICT;

CREATE TABLE calibrations (
  id TEXT PRIMARY KEY,
  chip TEXT NOT NULL,
  framework TEXT NOT NULL,
  framework_version TEXT NOT NULL,
  job_fingerprint TEXT NOT NULL,
  last_sequence INTEGER NOT NULL,
  measurement_count INTEGER NOT NULL,
  time_ratio REAL,
  memory_ratio REAL,
  model_version TEXT NOT NULL,
  create_time_ms INTEGER NOT NULL,
  content BLOB NOT NULL
) STRICT;
CREATE INDEX calibrations_by_create_time ON calibrations (create_time_ms, id);
CREATE INDEX calibrations_by_chip ON calibrations (chip, create_time_ms, id);
)sql"},
    // Version 4: the reason for an attempt's end, as a sentence.
    {3, R"sql(
ALTER TABLE attempts ADD COLUMN message TEXT NOT NULL DEFAULT '';
)sql"},
    // Version 5: the nodes that an attempt ran on, separated by commas.
    {4, R"sql(
ALTER TABLE attempts ADD COLUMN nodes TEXT NOT NULL DEFAULT '';
)sql"},
    // Version 6: the purpose of a trial, since a plan may run again to be compared or confirmed.
    {5, R"sql(
CREATE TABLE trials_6 (
  study_id TEXT NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  purpose TEXT NOT NULL,
  plan_key TEXT NOT NULL,
  plan_digest TEXT NOT NULL,
  plan BLOB NOT NULL,
  expected_step_time_seconds REAL NOT NULL,
  success_probability_ratio REAL NOT NULL,
  state TEXT NOT NULL,
  outcome TEXT,
  step_time_seconds REAL,
  peak_memory_bytes INTEGER,
  device_seconds REAL NOT NULL,
  start_time_ms INTEGER NOT NULL,
  end_time_ms INTEGER,
  measurement_sequence INTEGER REFERENCES measurements (sequence),
  UNIQUE (study_id, number)
) STRICT;
INSERT INTO trials_6
SELECT study_id, number, 'search', plan_key, plan_digest, plan, expected_step_time_seconds,
       success_probability_ratio, state, outcome, step_time_seconds, peak_memory_bytes,
       device_seconds, start_time_ms, end_time_ms, measurement_sequence
FROM trials;
DROP TABLE trials;
ALTER TABLE trials_6 RENAME TO trials;
CREATE UNIQUE INDEX searched_plans ON trials (study_id, plan_digest) WHERE purpose = 'search';
CREATE INDEX fastest_trials ON trials (study_id, step_time_seconds, number)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX trials_by_outcome ON trials (study_id, outcome, number);
CREATE INDEX trials_by_state ON trials (study_id, state, number);
)sql",
     R"sql(
ALTER TABLE trials ADD COLUMN purpose TEXT NOT NULL DEFAULT 'search';
ALTER TABLE trials ALTER COLUMN purpose DROP DEFAULT;
ALTER TABLE trials DROP CONSTRAINT trials_study_id_plan_digest_key;
CREATE UNIQUE INDEX searched_plans ON trials (study_id, plan_digest) WHERE purpose = 'search';
)sql"},
    // Version 7: how well an attempt was measured; reasons are separated by line feeds.
    {6, R"sql(
ALTER TABLE attempts ADD COLUMN step_count INTEGER;
ALTER TABLE attempts ADD COLUMN step_time_low_seconds REAL;
ALTER TABLE attempts ADD COLUMN step_time_high_seconds REAL;
ALTER TABLE attempts ADD COLUMN spread_ratio REAL;
ALTER TABLE attempts ADD COLUMN suspect_reasons TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN environment TEXT NOT NULL DEFAULT '';
ALTER TABLE attempts ADD COLUMN environment_digest TEXT NOT NULL DEFAULT '';
)sql"},
    // Version 8: each index of a list ends with the other columns that the list can be filtered by,
    // so that no row is fetched unnecessarily; the chip, framework, model and job are the
    // question's. There is also an index by time.
    {7, R"sql(
CREATE INDEX questions_of_chip ON questions (chip, framework, model_name, job_fingerprint);

DROP INDEX measurements_of_job;
DROP INDEX measurements_of_study;
DROP INDEX measurements_of_model;
DROP INDEX measurements_of_chip;
DROP INDEX measurements_of_framework;
DROP INDEX measurements_of_outcome;
DROP INDEX fastest_measurements;
DROP INDEX fastest_measurements_of_job;
DROP INDEX fastest_measurements_of_study;
DROP INDEX fastest_measurements_of_model;
DROP INDEX fastest_measurements_of_chip;
DROP INDEX fastest_measurements_of_framework;
CREATE INDEX measurements_of_job
  ON measurements (job_fingerprint, sequence, source, outcome, question_id);
CREATE INDEX measurements_of_study
  ON measurements (study_id, sequence, source, outcome, question_id)
  WHERE study_id IS NOT NULL;
CREATE INDEX measurements_of_model
  ON measurements (model_name, sequence, source, outcome, question_id);
CREATE INDEX measurements_of_chip
  ON measurements (chip, sequence, source, outcome, question_id);
CREATE INDEX measurements_of_framework
  ON measurements (chip, framework, sequence, source, outcome, question_id);
CREATE INDEX measurements_of_outcome
  ON measurements (outcome, sequence, source, question_id);
CREATE INDEX fastest_measurements
  ON measurements (step_time_seconds, sequence, source, outcome, question_id)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX fastest_measurements_of_job ON measurements
  (job_fingerprint, step_time_seconds, sequence, source, outcome, question_id)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX fastest_measurements_of_study
  ON measurements (study_id, step_time_seconds, sequence, source, outcome, question_id)
  WHERE step_time_seconds IS NOT NULL AND study_id IS NOT NULL;
CREATE INDEX fastest_measurements_of_model
  ON measurements (model_name, step_time_seconds, sequence, source, outcome, question_id)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX fastest_measurements_of_chip
  ON measurements (chip, step_time_seconds, sequence, source, outcome, question_id)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX fastest_measurements_of_framework ON measurements
  (chip, framework, step_time_seconds, sequence, source, outcome, question_id)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX latest_measurements_of_framework ON measurements
  (chip, framework, time_ms, sequence, source, outcome, question_id, expected_low_seconds);

DROP INDEX fastest_trials;
DROP INDEX trials_by_outcome;
CREATE INDEX fastest_trials ON trials (study_id, step_time_seconds, number, state, outcome)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX trials_by_outcome ON trials (study_id, outcome, number, state);
)sql"},
    // Version 9: what people say about a study.
    {8, R"sql(
ALTER TABLE studies ADD COLUMN display_name TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN note TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN edit_count INTEGER NOT NULL DEFAULT 0;
CREATE TABLE study_labels (
  study_id TEXT NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (study_id, key)
) STRICT, WITHOUT ROWID;
)sql"},
    // Version 10: marks of wrong measurements. A sequence is drawn from the counter of the
    // measurements (measurements.cc).
    {9, R"sql(
CREATE TABLE retractions (
  sequence INTEGER PRIMARY KEY,
  measurement_id TEXT NOT NULL UNIQUE REFERENCES measurements (id),
  time_ms INTEGER NOT NULL,
  reason TEXT NOT NULL
) STRICT;
)sql"},
    // Version 11: the ranked list of trials finds their memory, purpose and plan in its index, and
    // the trials of a plan have one.
    {10, R"sql(
DROP INDEX fastest_trials;
CREATE INDEX fastest_trials ON trials
  (study_id, step_time_seconds, number, state, outcome, peak_memory_bytes, purpose, plan_digest)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX trials_of_plan ON trials (study_id, plan_digest, number, purpose, state, outcome);
)sql"},
    // Version 12: studies may be paused, and a start finds the interrupted ones in an index.
    {11, R"sql(
CREATE INDEX interrupted_studies ON studies (create_time_ms, id) WHERE state = 'interrupted';
)sql"},
    // Version 13: studies may be deleted, first answers of calls are kept, and who has called what.
    {12, R"sql(
CREATE TABLE deleted_studies (
  id TEXT PRIMARY KEY,
  request_id TEXT,
  delete_time_ms INTEGER NOT NULL,
  last_fencing_token INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX deleted_studies_by_request_id ON deleted_studies (request_id)
  WHERE request_id IS NOT NULL;
CREATE INDEX deleted_studies_by_token ON deleted_studies (last_fencing_token);

CREATE TABLE answered_requests (
  request_id TEXT PRIMARY KEY,
  method TEXT NOT NULL,
  request_hash TEXT NOT NULL,
  response BLOB NOT NULL,
  time_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX answered_requests_by_time ON answered_requests (time_ms);

-- AUTOINCREMENT: a number is never used twice. Studies may be gone, so study_id refers to nothing.
CREATE TABLE audit_events (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  time_ms INTEGER NOT NULL,
  caller TEXT NOT NULL,
  role TEXT NOT NULL,
  peer TEXT NOT NULL,
  protocol TEXT NOT NULL,
  method TEXT NOT NULL,
  study_id TEXT NOT NULL,
  code TEXT NOT NULL,
  reason TEXT NOT NULL
) STRICT;
CREATE INDEX audit_events_by_time ON audit_events (time_ms);
CREATE INDEX audit_events_of_study ON audit_events (study_id, sequence);
CREATE INDEX audit_events_of_caller ON audit_events (caller, sequence);
CREATE INDEX audit_events_of_method ON audit_events (method, sequence);
)sql"},
    // Version 14: several processes share the studies of a store. A study that runs is leased to
    // one of them, until a time of the store's clock. Nobody holds the lease of a study that was
    // running before, so it has expired.
    {13, R"sql(
ALTER TABLE studies ADD COLUMN lease_token INTEGER NOT NULL DEFAULT 0;
ALTER TABLE studies ADD COLUMN lease_expires_ms INTEGER;
ALTER TABLE studies ADD COLUMN pause_wanted INTEGER NOT NULL DEFAULT 0;
UPDATE studies SET lease_expires_ms = 0 WHERE state = 'running';
CREATE INDEX leased_studies ON studies (lease_expires_ms) WHERE lease_expires_ms IS NOT NULL;
)sql"},
    // Version 15: the creator of a study, the limit of its jobs, and the chips of its other pools,
    // separated by line feeds. What the jobs of a deleted study took still counts for its creator.
    {14, R"sql(
ALTER TABLE studies ADD COLUMN other_chips TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN creator TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN device_seconds_limit REAL;
CREATE INDEX studies_of_creator ON studies (creator, end_time_ms);
CREATE INDEX open_studies ON studies (creator) WHERE end_time_ms IS NULL;
ALTER TABLE deleted_studies ADD COLUMN creator TEXT NOT NULL DEFAULT '';
ALTER TABLE deleted_studies ADD COLUMN end_time_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE deleted_studies ADD COLUMN device_seconds REAL NOT NULL DEFAULT 0;
CREATE INDEX deleted_studies_of_creator ON deleted_studies (creator, end_time_ms);
)sql"},
};
static_assert(std::size(kMigrations) == kSchemaVersion);

}  // namespace

absl::Status RunSteps(Connection* connection, int version, SchemaWords words) {
  for (const Migration& step : kMigrations) {
    if (step.from < version) continue;
    const bool is_postgres = words == SchemaWords::kPostgres;
    const bool is_other = is_postgres && !step.on_postgres.empty();
    const std::string_view sql = is_other ? step.on_postgres : step.sql;
    RETURN_IF_ERROR(connection->Execute(is_postgres ? TranslateSchema(sql) : std::string(sql)));
  }
  return absl::OkStatus();
}

absl::Status NoStore(std::string_view address) {
  return WithReason(absl::NotFoundError(fmt::format("store '{}' does not exist", address)),
                    "NO_STORE");
}

absl::Status ForeignStore(std::string_view address, std::string_view why) {
  return WithReason(
      absl::FailedPreconditionError(fmt::format(
          "'{}' is not a Meshwright store: {}; name another one with --db", address, why)),
      "FOREIGN_STORE");
}

absl::Status NewerStore(std::string_view address, std::int64_t version) {
  return WithReason(
      absl::FailedPreconditionError(fmt::format(
          "store '{}' has schema version {}, this program knows {}; use the newer program that "
          "wrote it, or name another store with --db",
          address, version, kSchemaVersion)),
      "NEWER_STORE");
}

absl::Status OlderStore(std::string_view address, std::int64_t version) {
  return WithReason(
      absl::FailedPreconditionError(fmt::format(
          "store '{}' has schema version {}, this program reads {}; open it once for writing, "
          "which upgrades it",
          address, version, kSchemaVersion)),
      "OLDER_STORE");
}

}  // namespace meshwright

// Stores of every earlier schema version are upgraded to this one and keep their rows.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store/schema.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "tests/files/temporary_folder.h"
#include "tests/recorder/run_sql.h"
#include "tests/recorder/temporary_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

namespace fs = std::filesystem;
using testing::ElementsAre;

// The original layout of version 1, frozen: old files have it, regardless of changes in the
// program.
constexpr char kVersion1[] = R"sql(
PRAGMA journal_mode = WAL;
CREATE TABLE studies (id TEXT PRIMARY KEY, state TEXT NOT NULL, outcome TEXT NOT NULL,
  model_name TEXT NOT NULL, cluster_name TEXT NOT NULL, chip TEXT NOT NULL,
  device_count INTEGER NOT NULL, owner TEXT NOT NULL, create_time_ms INTEGER NOT NULL,
  start_time_ms INTEGER, end_time_ms INTEGER, best_step_time_seconds REAL,
  gain_over_baseline_ratio REAL, best_plan_digest TEXT NOT NULL,
  error_message TEXT NOT NULL) STRICT;
CREATE INDEX studies_by_create_time ON studies (create_time_ms, id);
CREATE INDEX studies_alive ON studies (id) WHERE state IN ('queued', 'running', 'cancelling');
CREATE TABLE study_messages (study_id TEXT PRIMARY KEY REFERENCES studies (id) ON DELETE CASCADE,
  question BLOB NOT NULL, result BLOB) STRICT;
CREATE TABLE plans (study_id TEXT NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  rank INTEGER NOT NULL, plan_key TEXT NOT NULL, plan_digest TEXT NOT NULL, state TEXT NOT NULL,
  step_time_seconds REAL NOT NULL, peak_memory_bytes INTEGER NOT NULL,
  reserved_memory_bytes INTEGER NOT NULL, fits INTEGER NOT NULL, plan BLOB NOT NULL,
  estimate BLOB NOT NULL, UNIQUE (study_id, rank)) STRICT;
CREATE TABLE events (study_id TEXT NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  revision INTEGER NOT NULL, time_ms INTEGER NOT NULL, kind TEXT NOT NULL, payload BLOB NOT NULL,
  PRIMARY KEY (study_id, revision)) STRICT, WITHOUT ROWID;
INSERT INTO studies VALUES ('old', 'succeeded', 'improved', 'llama-13b', 'a100x64',
  'nvidia-a100-sxm4-80gb', 64, 'pid 1', 1000, 1001, 1002, 2.5, 0.125, 'd1', '');
INSERT INTO study_messages VALUES ('old', x'71', x'72');
INSERT INTO plans VALUES ('old', 1, 'tp2,pp2', 'd1', 'estimated', 2.5, 40, 44, 1, x'70', x'65');
INSERT INTO events VALUES ('old', 1, 1000, 'state', CAST('succeeded' AS BLOB));
PRAGMA application_id = 1297568596;  -- 0x4D575354, "MWST"
PRAGMA user_version = 1;
)sql";

// The additions of version 2, frozen too.
constexpr char kToVersion2[] = R"sql(
ALTER TABLE studies ADD COLUMN request_id TEXT;
ALTER TABLE studies ADD COLUMN request_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN search_seconds REAL;
CREATE UNIQUE INDEX studies_by_request_id ON studies (request_id) WHERE request_id IS NOT NULL;
UPDATE studies SET request_id = 'q1', request_hash = 'h1', search_seconds = 0.25;
PRAGMA user_version = 2;
)sql";

// The trials of versions 3 to 5, in which a plan ran only once per study.
constexpr char kTrialsOfVersion3[] = R"sql(
CREATE TABLE trials_3 (study_id TEXT NOT NULL REFERENCES studies (id) ON DELETE CASCADE,
  number INTEGER NOT NULL, plan_key TEXT NOT NULL, plan_digest TEXT NOT NULL, plan BLOB NOT NULL,
  expected_step_time_seconds REAL NOT NULL, success_probability_ratio REAL NOT NULL,
  state TEXT NOT NULL, outcome TEXT, step_time_seconds REAL, peak_memory_bytes INTEGER,
  device_seconds REAL NOT NULL, start_time_ms INTEGER NOT NULL, end_time_ms INTEGER,
  measurement_sequence INTEGER REFERENCES measurements (sequence), UNIQUE (study_id, number),
  UNIQUE (study_id, plan_digest)) STRICT;
INSERT INTO trials_3 SELECT study_id, number, plan_key, plan_digest, plan,
  expected_step_time_seconds, success_probability_ratio, state, outcome, step_time_seconds,
  peak_memory_bytes, device_seconds, start_time_ms, end_time_ms, measurement_sequence FROM trials;
DROP TABLE trials;
ALTER TABLE trials_3 RENAME TO trials;
CREATE INDEX fastest_trials ON trials (study_id, step_time_seconds, number)
  WHERE step_time_seconds IS NOT NULL;
CREATE INDEX trials_by_outcome ON trials (study_id, outcome, number);
CREATE INDEX trials_by_state ON trials (study_id, state, number);
)sql";

// The indexes of versions 3 to 7 that version 8 extended, and the additions of version 8.
constexpr char kIndexesOfVersion7[] = R"sql(
DROP INDEX questions_of_chip;
DROP INDEX latest_measurements_of_framework;
DROP INDEX measurements_of_job;
CREATE INDEX measurements_of_job ON measurements (job_fingerprint);
DROP INDEX measurements_of_study;
CREATE INDEX measurements_of_study ON measurements (study_id) WHERE study_id IS NOT NULL;
DROP INDEX measurements_of_model;
CREATE INDEX measurements_of_model ON measurements (model_name);
DROP INDEX measurements_of_chip;
CREATE INDEX measurements_of_chip ON measurements (chip);
DROP INDEX measurements_of_framework;
CREATE INDEX measurements_of_framework ON measurements (chip, framework);
DROP INDEX measurements_of_outcome;
CREATE INDEX measurements_of_outcome ON measurements (outcome);
DROP INDEX fastest_measurements;
CREATE INDEX fastest_measurements ON measurements (step_time_seconds)
  WHERE step_time_seconds IS NOT NULL;
DROP INDEX fastest_measurements_of_job;
CREATE INDEX fastest_measurements_of_job ON measurements (job_fingerprint, step_time_seconds)
  WHERE step_time_seconds IS NOT NULL;
DROP INDEX fastest_measurements_of_study;
CREATE INDEX fastest_measurements_of_study ON measurements (study_id, step_time_seconds)
  WHERE step_time_seconds IS NOT NULL AND study_id IS NOT NULL;
DROP INDEX fastest_measurements_of_model;
CREATE INDEX fastest_measurements_of_model ON measurements (model_name, step_time_seconds)
  WHERE step_time_seconds IS NOT NULL;
DROP INDEX fastest_measurements_of_chip;
CREATE INDEX fastest_measurements_of_chip ON measurements (chip, step_time_seconds)
  WHERE step_time_seconds IS NOT NULL;
DROP INDEX fastest_measurements_of_framework;
CREATE INDEX fastest_measurements_of_framework
  ON measurements (chip, framework, step_time_seconds) WHERE step_time_seconds IS NOT NULL;
DROP INDEX fastest_trials;
CREATE INDEX fastest_trials ON trials (study_id, step_time_seconds, number)
  WHERE step_time_seconds IS NOT NULL;
DROP INDEX trials_by_outcome;
CREATE INDEX trials_by_outcome ON trials (study_id, outcome, number);
)sql";

// The columns that attempts did not have before version 7.
constexpr char kAttemptsOfVersion6[] = R"sql(
ALTER TABLE attempts DROP COLUMN step_count;
ALTER TABLE attempts DROP COLUMN step_time_low_seconds;
ALTER TABLE attempts DROP COLUMN step_time_high_seconds;
ALTER TABLE attempts DROP COLUMN spread_ratio;
ALTER TABLE attempts DROP COLUMN suspect_reasons;
ALTER TABLE attempts DROP COLUMN environment;
ALTER TABLE attempts DROP COLUMN environment_digest;
)sql";

// The remarks that studies did not have before version 9.
constexpr char kStudiesOfVersion8[] = R"sql(
DROP TABLE study_labels;
ALTER TABLE studies DROP COLUMN display_name;
ALTER TABLE studies DROP COLUMN note;
ALTER TABLE studies DROP COLUMN edit_count;
)sql";

// The indexes of trials before version 11.
constexpr char kIndexesOfVersion10[] = R"sql(
DROP INDEX trials_of_plan;
DROP INDEX fastest_trials;
CREATE INDEX fastest_trials ON trials (study_id, step_time_seconds, number, state, outcome)
  WHERE step_time_seconds IS NOT NULL;
)sql";

// The marks that measurements did not have before version 10.
constexpr char kMeasurementsOfVersion9[] = "DROP TABLE retractions;";

// Turns a store of this version into one of an earlier version (3 or later) with its rows.
std::string BackTo(int version) {
  struct Step {
    int to;
    const char* sql;
  };
  const Step kSteps[] = {{14,
                          "DROP INDEX studies_of_creator; DROP INDEX open_studies;"
                          "DROP INDEX deleted_studies_of_creator;"
                          "ALTER TABLE studies DROP COLUMN other_chips;"
                          "ALTER TABLE studies DROP COLUMN creator;"
                          "ALTER TABLE studies DROP COLUMN device_seconds_limit;"
                          "ALTER TABLE deleted_studies DROP COLUMN creator;"
                          "ALTER TABLE deleted_studies DROP COLUMN end_time_ms;"
                          "ALTER TABLE deleted_studies DROP COLUMN device_seconds;"},
                         {13,
                          "DROP INDEX leased_studies;"
                          "ALTER TABLE studies DROP COLUMN lease_token;"
                          "ALTER TABLE studies DROP COLUMN lease_expires_ms;"
                          "ALTER TABLE studies DROP COLUMN pause_wanted;"},
                         {12,
                          "DROP TABLE deleted_studies; DROP TABLE answered_requests;"
                          "DROP TABLE audit_events;"},
                         {11, "DROP INDEX interrupted_studies;"},
                         {10, kIndexesOfVersion10},
                         {9, kMeasurementsOfVersion9},
                         {8, kStudiesOfVersion8},
                         {7, kIndexesOfVersion7},
                         {6, kAttemptsOfVersion6},
                         {5, kTrialsOfVersion3},
                         {4, "ALTER TABLE attempts DROP COLUMN nodes;"},
                         {3, "ALTER TABLE attempts DROP COLUMN message;"}};
  std::string sql;
  for (const Step& step : kSteps) {
    if (step.to >= version) sql += step.sql;
  }
  return sql + fmt::format("PRAGMA user_version = {}", version);
}

// Returns every column of every table and index, in their order. The texts of CREATE TABLE differ
// if a later version added a column.
std::vector<std::string> LayoutOf(const std::string& path) {
  return RunSql(path, R"sql(
SELECT made.type || ' ' || made.name || ' ' || part.cid || ' ' || part.name || ' ' || part.type ||
       ' ' || part."notnull" || ' ' || part.pk AS line
FROM sqlite_schema AS made JOIN pragma_table_xinfo(made.name) AS part WHERE made.type = 'table'
UNION ALL
SELECT made.type || ' ' || made.tbl_name || ' ' || made.name || ' ' || part.seqno || ' ' ||
       part.name || ' ' || coalesce(substr(made.sql, instr(made.sql, ' WHERE ')), '')
FROM sqlite_schema AS made JOIN pragma_index_info(made.name) AS part WHERE made.type = 'index'
ORDER BY line)sql");
}

class UpgradeTest : public testing::Test {
 protected:
  absl::StatusOr<Recorder> Write() { return Recorder::Open({.path = path_}); }
  absl::StatusOr<Recorder> Read() { return Recorder::Open({.path = path_, .read_only = true}); }
  bool Exists(const std::string& suffix) const { return fs::exists(path_ + suffix); }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("s.db");
};

TEST_F(UpgradeTest, UpgradesAnOlderStoreAndKeepsItsRows) {
  RunSql(path_, kVersion1);
  EXPECT_EQ(Reason(Read().status()), "OLDER_STORE");
  auto recorder = Write();
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_EQ(recorder->schema_version(), kSchemaVersion);
  StudyRecord expected = MakeStudy("old");
  expected.state = StudyState::kSucceeded;
  expected.outcome = "improved";
  expected.start_time_ms = 1001;
  expected.end_time_ms = 1002;
  expected.best_step_time = Seconds(2.5);
  expected.gain_over_baseline = 0.125;
  expected.best_plan_digest = "d1";
  expected.question = "q";
  expected.result = "r";
  expected.revision = 1;
  const auto study = recorder->GetStudy("old");
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(*study, expected);
  const auto plans = recorder->ListPlans("old", 0, "");
  ASSERT_TRUE(plans.ok()) << plans.status();
  ASSERT_THAT(plans->plans, testing::SizeIs(1));
  EXPECT_EQ(plans->plans[0].step_time, Seconds(2.5));
  EXPECT_EQ(plans->plans[0].reserved_memory, Bytes{44});
  EXPECT_EQ(recorder->ListEvents("old", 0, 0)->at(0).payload, "succeeded");

  // The new columns work.
  StudyRecord fresh = MakeStudy("new");
  fresh.request_id = "r";
  fresh.search_time = Seconds(0.5);
  ASSERT_TRUE(recorder->InsertStudy(fresh).ok());
  EXPECT_FALSE(recorder->InsertStudy(fresh)->is_new);
  EXPECT_TRUE(Read().ok());

  // The backup is the old store and can be upgraded in the same way.
  ASSERT_TRUE(Exists(".v1.bak"));
  EXPECT_FALSE(Exists(".v1.bak.partial"));
  const auto backup = Recorder::Open({.path = path_ + ".v1.bak", .read_only = true});
  EXPECT_EQ(Reason(backup.status()), "OLDER_STORE");
  auto restored = Recorder::Open({.path = path_ + ".v1.bak"});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(*restored->GetStudy("old"), expected);
  EXPECT_TRUE(absl::IsNotFound(restored->GetStudy("new").status()));
}

// Version 5 added the nodes on which attempts ran.
TEST_F(UpgradeTest, UpgradesVersion3ToAttemptsThatSayWhyAndWhere) {
  {
    auto recorder = Write();
    ASSERT_TRUE(recorder.ok());
    ASSERT_TRUE(recorder->InsertStudy(MakeStudy("s")).ok());
    ASSERT_TRUE(recorder
                    ->BeginTrial({.study_id = "s",
                                  .plan_key = "key",
                                  .plan_digest = "digest",
                                  .plan = "plan",
                                  .expected_step_time = Seconds(1),
                                  .launcher = "slurm"})
                    .ok());
  }
  RunSql(path_, BackTo(3));
  auto recorder = Write();
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_TRUE(Exists(".v3.bak"));
  const auto old = recorder->ListAttempts("s", std::nullopt);
  ASSERT_TRUE(old.ok()) << old.status();
  ASSERT_EQ(old->size(), 1U);
  EXPECT_EQ(old->front().message, "");
  EXPECT_TRUE(old->front().nodes.empty());
  EXPECT_EQ(old->front().quality, AttemptQuality());
  const AttemptQuality quality = {.step_count = 12,
                                  .step_time_low = Seconds(0.9),
                                  .step_time_high = Seconds(1.1),
                                  .spread_ratio = 0.07,
                                  .suspect_reasons = {"drift: slower and slower", "other_load"},
                                  .environment = R"({"host":"n1"})",
                                  .environment_digest = "abc"};
  const auto ended = recorder->FinishAttempt({.attempt_id = old->front().id,
                                              .fencing_token = old->front().fencing_token,
                                              .outcome = Outcome::kCrash,
                                              .failure_class = "crash",
                                              .message = "why",
                                              .nodes = {"n1", "n2"},
                                              .quality = quality});
  ASSERT_TRUE(ended.ok()) << ended.status();
  const AttemptRecord kept = recorder->ListAttempts("s", 1)->front();
  EXPECT_EQ(kept.message, "why");
  EXPECT_EQ(kept.quality, quality);
  EXPECT_EQ(kept.nodes, (std::vector<std::string>{"n1", "n2"}));
  // Version 6 allows a plan to run again, and records the purpose.
  const TrialIntent again = {.study_id = "s", .plan_digest = "digest"};
  EXPECT_EQ(Reason(recorder->BeginTrial(again).status()), "TRIAL_EXISTS");
  TrialIntent confirming = again;
  confirming.purpose = TrialPurpose::kConfirm;
  ASSERT_TRUE(recorder->BeginTrial(confirming).ok());
  const auto trials = recorder->ListTrials({.study_id = "s"}, TrialOrder::kNumber, 0, "");
  ASSERT_TRUE(trials.ok()) << trials.status();
  EXPECT_EQ(trials->trials.at(0).purpose, TrialPurpose::kSearch);
  EXPECT_EQ(trials->trials.at(0).plan_key, "key");
  EXPECT_EQ(trials->trials.at(1).purpose, TrialPurpose::kConfirm);
}

TEST_F(UpgradeTest, UpgradesVersion2ToWhatIsMeasured) {
  RunSql(path_, std::string(kVersion1) + kToVersion2);
  auto recorder = Write();
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const auto study = recorder->GetStudy("old");
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->request_id, "q1");
  EXPECT_EQ(study->request_hash, "h1");
  EXPECT_EQ(study->search_time, Seconds(0.25));
  EXPECT_EQ(study->best_plan_digest, "d1");
  EXPECT_EQ(study->history_sequence, std::nullopt);
  EXPECT_EQ(study->result, "r");
  EXPECT_EQ(recorder->ListPlans("old", 0, "")->plans.size(), 1U);
  EXPECT_TRUE(Exists(".v2.bak"));

  // The new tables and the new column work.
  EXPECT_EQ(*recorder->SetStudyHistory("old", 0), 0);
  EXPECT_EQ(recorder->InsertMeasurements(std::vector{MakeMeasurement("m")})->size(), 1U);
  EXPECT_EQ(*recorder->LastMeasurementSequence(), 1);
  const auto backup = Recorder::Open({.path = path_ + ".v2.bak", .read_only = true});
  EXPECT_EQ(Reason(backup.status()), "OLDER_STORE");
}

// Version 10 added retractions, which continue the numbers of the measurements that are there.
TEST_F(UpgradeTest, UpgradesVersion9ToRetractions) {
  {
    auto recorder = Write();
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    ASSERT_EQ(recorder->InsertMeasurements(std::vector{MakeMeasurement("m")})->size(), 1U);
  }
  RunSql(path_, BackTo(9));
  EXPECT_EQ(Reason(Read().status()), "OLDER_STORE");
  auto recorder = Write();
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_TRUE(Exists(".v9.bak"));
  EXPECT_EQ(recorder->GetMeasurement("m")->retraction, std::nullopt);
  const auto retracted = recorder->RetractMeasurement("m", {.time_ms = 5, .reason = "wrong"});
  ASSERT_TRUE(retracted.ok()) << retracted.status();
  EXPECT_EQ(retracted->retraction, (Retraction{.sequence = 2, .time_ms = 5, .reason = "wrong"}));
}

// Version 14 added leases. That of a study that was running has expired.
TEST_F(UpgradeTest, UpgradesVersion13ToLeases) {
  {
    auto recorder = Write();
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    ASSERT_TRUE(recorder->InsertStudy(MakeStudy("waiting")).ok());
    ASSERT_TRUE(recorder->InsertStudy(MakeStudy("running")).ok());
    ASSERT_TRUE(recorder->UpdateStudy({.study_id = "running"}).ok());
  }
  RunSql(path_, BackTo(13));
  auto recorder = Write();
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_TRUE(Exists(".v13.bak"));
  EXPECT_THAT(*recorder->ListClaimable(), ElementsAre("waiting"));
  EXPECT_EQ(recorder->InterruptExpired(7000, {})->front().id, "running");
}

// Version 15 added creators. Nobody knows those of earlier studies.
TEST_F(UpgradeTest, UpgradesVersion14ToCreators) {
  {
    auto recorder = Write();
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    for (const char* id : {"kept", "gone"}) {
      ASSERT_TRUE(recorder->InsertStudy(MakeStudy(id)).ok());
    }
    ASSERT_TRUE(recorder->FinishStudy({.study_id = "gone", .state = StudyState::kFailed}).ok());
    ASSERT_TRUE(recorder->DeleteStudy({.study_id = "gone"}).ok());
  }
  RunSql(path_, BackTo(14));
  auto recorder = Write();
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_TRUE(Exists(".v14.bak"));
  EXPECT_EQ(*recorder->GetStudy("kept"), [] {
    StudyRecord study = MakeStudy("kept");
    study.revision = 1;
    return study;
  }());
  EXPECT_EQ(Reason(recorder->InsertStudy(MakeStudy("gone")).status()), "STUDY_DELETED");
  EXPECT_EQ(*recorder->CountOpenStudies(""), 1);
}

// Stores a study with a trial, and measurements of which the last stored is the oldest.
void Fill(Recorder& recorder) {
  ASSERT_TRUE(recorder.InsertStudy(MakeStudy("s")).ok());
  ASSERT_TRUE(recorder.BeginTrial(MakeIntent("s", "digest")).ok());
  std::vector<MeasurementRecord> rows = {MakeMeasurement("a"), MakeMeasurement("b", "other"),
                                         MakeMeasurement("c")};
  for (int i = 0; i < 3; ++i) {
    rows[static_cast<std::size_t>(i)].time_ms = 3000 - i;
    rows[static_cast<std::size_t>(i)].step_time = Seconds(i + 1);
    rows[static_cast<std::size_t>(i)].study_id = "s";
  }
  ASSERT_TRUE(recorder.InsertMeasurements(rows).ok());
}

std::vector<std::string> Ids(const Recorder& recorder, const MeasurementFilter& filter,
                             MeasurementOrder order) {
  std::vector<std::string> ids;
  const auto page = recorder.ListMeasurements(filter, order, 0, "");
  EXPECT_TRUE(page.ok()) << page.status();
  if (!page.ok()) return ids;
  for (const MeasurementRecord& row : page->measurements) ids.push_back(row.id);
  return ids;
}

class VersionTest : public UpgradeTest, public testing::WithParamInterface<int> {};

TEST_P(VersionTest, BecomesTheLayoutOfANewStore) {
  const int version = GetParam();
  if (version < 3) {
    RunSql(path_, std::string(kVersion1) + (version == 2 ? kToVersion2 : ""));
  } else {
    {
      auto recorder = Write();
      ASSERT_TRUE(recorder.ok()) << recorder.status();
      Fill(*recorder);
    }
    RunSql(path_, BackTo(version));
  }
  ASSERT_TRUE(Recorder::Open({.path = folder_.File("new.db")}).ok());
  EXPECT_NE(LayoutOf(path_), LayoutOf(folder_.File("new.db")));
  {
    auto recorder = Write();
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    if (version < 3) Fill(*recorder);
  }
  EXPECT_TRUE(Exists(fmt::format(".v{}.bak", version)));
  EXPECT_EQ(LayoutOf(path_), LayoutOf(folder_.File("new.db")));
  // This also compares each index with its table.
  EXPECT_THAT(RunSql(path_, "PRAGMA integrity_check"), ElementsAre("ok"));
  const auto reader = Read();
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ(reader->ListTrials({.study_id = "s"}, TrialOrder::kNumber, 0, "")->trials.size(), 1U);
  const MeasurementFilter filter = {.model_name = "llama-13b", .study_id = "s"};
  EXPECT_THAT(Ids(*reader, filter, MeasurementOrder::kNewest), ElementsAre("c", "a"));
  EXPECT_THAT(Ids(*reader, filter, MeasurementOrder::kFastest), ElementsAre("a", "c"));
  EXPECT_THAT(Ids(*reader, {}, MeasurementOrder::kLatest), ElementsAre("a", "b", "c"));
}

INSTANTIATE_TEST_SUITE_P(All, VersionTest, testing::Range(1, kSchemaVersion),
                         [](const auto& c) { return fmt::format("v{}", c.param); });

TEST_F(UpgradeTest, AnOldStoreThatCannotBeUpgradedStaysAsItIs) {
  // The step to version 2 creates an index that exists already.
  RunSql(path_, std::string(kVersion1) + "CREATE INDEX studies_by_request_id ON studies (owner);");
  EXPECT_FALSE(Write().ok());
  EXPECT_FALSE(Exists(".v1.bak"));  // otherwise each start of a server would add one
  EXPECT_EQ(Reason(Read().status()), "OLDER_STORE");
  RunSql(path_, "DROP INDEX studies_by_request_id");
  const auto recorder = Write();
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_TRUE(recorder->GetStudy("old").ok());
}

// An older file that replaces the store later is upgraded too, and the backup of the first one
// stays.
TEST_F(UpgradeTest, ABackupOfAnEarlierUpgradeStays) {
  for (const char* const suffix : {".v1.bak", ".v1.2.bak", ".v1.3.bak"}) {
    for (const char* const rest : {"", "-wal", "-shm", ".lock"}) fs::remove(path_ + rest);
    RunSql(path_, kVersion1 + fmt::format("UPDATE studies SET owner = '{}'", suffix));
    ASSERT_TRUE(Write().ok());
    ASSERT_TRUE(Exists(suffix)) << suffix;
  }
  for (const char* const suffix : {".v1.bak", ".v1.2.bak", ".v1.3.bak"}) {
    const auto backup = Recorder::Open({.path = path_ + suffix});
    ASSERT_TRUE(backup.ok()) << backup.status();
    EXPECT_EQ(backup->GetStudy("old")->owner, suffix);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

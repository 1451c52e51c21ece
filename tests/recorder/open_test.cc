// What Open accepts, refuses, waits for and upgrades.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <unistd.h>

#include <fstream>

#include "recorder/recorder.h"
#include "recorder/schema.h"
#include "search_space/status.h"
#include "tests/recorder/temporary_store.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

void RunSql(const std::string& path, const std::string& sql) {
  sqlite3* connection = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &connection), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(connection, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK)
      << (error != nullptr ? error : "");
  sqlite3_free(error);
  sqlite3_close(connection);
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string Message(const absl::Status& status) { return std::string(status.message()); }

// Layout version 1 as it was, frozen: this is what old files hold, whatever the program does now.
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

// What version 2 added, frozen likewise.
constexpr char kToVersion2[] = R"sql(
ALTER TABLE studies ADD COLUMN request_id TEXT;
ALTER TABLE studies ADD COLUMN request_hash TEXT NOT NULL DEFAULT '';
ALTER TABLE studies ADD COLUMN search_seconds REAL;
CREATE UNIQUE INDEX studies_by_request_id ON studies (request_id) WHERE request_id IS NOT NULL;
UPDATE studies SET request_id = 'q1', request_hash = 'h1', search_seconds = 0.25;
PRAGMA user_version = 2;
)sql";

class OpenTest : public testing::Test {
 protected:
  absl::StatusOr<Recorder> Write() { return Recorder::Open({.path = path_}); }
  absl::StatusOr<Recorder> Read() { return Recorder::Open({.path = path_, .read_only = true}); }
  bool Exists(const std::string& suffix) const { return fs::exists(path_ + suffix); }

  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("s.db");
};

TEST_F(OpenTest, CreatesTheFolderAndTheStore) {
  const auto recorder = Recorder::Open({.path = folder_.File("a/b/s.db")});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_EQ(recorder->schema_version(), kSchemaVersion);
  EXPECT_TRUE(fs::exists(folder_.File("a/b/s.db")));
}

TEST_F(OpenTest, LeavesOneFileAndTheLockBehind) {
  ASSERT_TRUE(Write().ok());
  EXPECT_TRUE(Exists("") && Exists(".lock"));
  EXPECT_FALSE(Exists("-wal") || Exists("-shm") || Exists("-journal"));
}

TEST_F(OpenTest, RefusesWhatIsNotAStore) {
  struct Case {
    const char* name;
    std::string text;  // of the file; or else
    std::string sql;   // that makes it
  };
  const Case kCases[] = {
      {"short text", "hello", ""},
      {"long text", std::string(5000, 'x'), ""},
      {"another program's tables", "", "CREATE TABLE t (x)"},
      {"another program's tables, WAL", "", "PRAGMA journal_mode = WAL; CREATE TABLE t (x)"},
      {"another application", "", "PRAGMA application_id = 252006; CREATE TABLE t (x)"},
  };
  int number = 0;
  for (const Case& tested : kCases) {
    const std::string path = folder_.File("foreign" + std::to_string(++number));
    if (tested.sql.empty()) {
      std::ofstream(path) << tested.text;
    } else {
      RunSql(path, tested.sql);
    }
    const std::string before = ReadFile(path);
    for (const bool read_only : {false, true}) {
      const auto recorder = Recorder::Open({.path = path, .read_only = read_only});
      EXPECT_TRUE(absl::IsFailedPrecondition(recorder.status())) << tested.name;
      EXPECT_EQ(Reason(recorder.status()), "FOREIGN_STORE") << tested.name << recorder.status();
      EXPECT_THAT(Message(recorder.status()), HasSubstr(path));
    }
    EXPECT_EQ(ReadFile(path), before) << tested.name;
    EXPECT_FALSE(fs::exists(path + ".lock")) << tested.name;
  }
}

TEST_F(OpenTest, TakesAnEmptyFileAsNew) {
  std::ofstream(path_) << "";
  ASSERT_TRUE(Write().ok());
  ASSERT_TRUE(Read().ok());
}

TEST_F(OpenTest, RefusesANewerSchemaAndNamesBoth) {
  ASSERT_TRUE(Write().ok());
  RunSql(path_, "PRAGMA user_version = 8");
  for (const auto& recorder : {Write().status(), Read().status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(recorder));
    EXPECT_EQ(Reason(recorder), "NEWER_STORE");
    EXPECT_THAT(Message(recorder), HasSubstr("schema version 8, this program knows 7"));
  }
}

TEST_F(OpenTest, UpgradesAnOlderStoreAndKeepsItsRows) {
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

  // The backup is the old store: it upgrades like the old store.
  ASSERT_TRUE(Exists(".v1.bak"));
  EXPECT_FALSE(Exists(".v1.bak.partial"));
  const auto backup = Recorder::Open({.path = path_ + ".v1.bak", .read_only = true});
  EXPECT_EQ(Reason(backup.status()), "OLDER_STORE");
  auto restored = Recorder::Open({.path = path_ + ".v1.bak"});
  ASSERT_TRUE(restored.ok()) << restored.status();
  EXPECT_EQ(*restored->GetStudy("old"), expected);
  EXPECT_TRUE(absl::IsNotFound(restored->GetStudy("new").status()));
}

// The trials of versions 3 to 5: a plan ran once in a study.
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

// Version 5 added where they ran.
TEST_F(OpenTest, UpgradesVersion3ToAttemptsThatSayWhyAndWhere) {
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
  RunSql(path_,
         std::string(kTrialsOfVersion3) +
             "ALTER TABLE attempts DROP COLUMN message; ALTER TABLE attempts DROP COLUMN nodes;"
             "ALTER TABLE attempts DROP COLUMN step_count;"
             "ALTER TABLE attempts DROP COLUMN step_time_low_seconds;"
             "ALTER TABLE attempts DROP COLUMN step_time_high_seconds;"
             "ALTER TABLE attempts DROP COLUMN spread_ratio;"
             "ALTER TABLE attempts DROP COLUMN suspect_reasons;"
             "ALTER TABLE attempts DROP COLUMN environment;"
             "ALTER TABLE attempts DROP COLUMN environment_digest;"
             "PRAGMA user_version = 3");
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
  // Version 6 lets a plan run again, and says for what.
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

TEST_F(OpenTest, UpgradesVersion2ToWhatIsMeasured) {
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

TEST_F(OpenTest, AnOldStoreThatCannotBeUpgradedStaysAsItIs) {
  // A table that the step to version 2 wants to make is there already.
  RunSql(path_, std::string(kVersion1) + "CREATE INDEX studies_by_request_id ON studies (owner);");
  EXPECT_FALSE(Write().ok());
  EXPECT_FALSE(Exists(".v1.bak"));  // or each start of a server would add one
  EXPECT_EQ(Reason(Read().status()), "OLDER_STORE");
  RunSql(path_, "DROP INDEX studies_by_request_id");
  const auto recorder = Write();
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  EXPECT_TRUE(recorder->GetStudy("old").ok());
}

// An older file that is put in place later is upgraded too, and the first one's backup stays.
TEST_F(OpenTest, ABackupOfAnEarlierUpgradeStays) {
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

TEST_F(OpenTest, OneWriterAndItSaysWho) {
  auto first = Recorder::Open({.path = path_, .who = "meshwrightd on 127.0.0.1:7001"});
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second =
      Recorder::Open({.path = path_, .lock_wait = std::chrono::milliseconds(30), .who = "tune"});
  EXPECT_TRUE(absl::IsUnavailable(second.status()));
  EXPECT_EQ(Reason(second.status()), "STORE_IN_USE");
  EXPECT_THAT(Message(second.status()),
              HasSubstr("pid " + std::to_string(getpid()) + " (meshwrightd on 127.0.0.1:7001)"));
  EXPECT_THAT(Message(second.status()), HasSubstr("--server"));
  EXPECT_THAT(Message(second.status()), HasSubstr("--db"));
  // The same file by another name is the same store.
  fs::create_symlink(path_, folder_.File("link.db"));
  EXPECT_EQ(Reason(Recorder::Open({.path = folder_.File("link.db")}).status()), "STORE_IN_USE");
  // The lock moves with the Recorder and goes with it.
  {
    const Recorder moved = *std::move(first);
    EXPECT_EQ(Reason(Write().status()), "STORE_IN_USE");
  }
  EXPECT_TRUE(Write().ok());
}

TEST_F(OpenTest, AMovedOverRecorderLetsGo) {
  auto recorder = Write();
  ASSERT_TRUE(recorder.ok());
  auto other = Recorder::Open({.path = folder_.File("other.db")});
  ASSERT_TRUE(other.ok());
  *recorder = *std::move(other);
  EXPECT_TRUE(Write().ok());
  EXPECT_EQ(Reason(Recorder::Open({.path = folder_.File("other.db")}).status()), "STORE_IN_USE");
}

TEST_F(OpenTest, ReadersNeedNoLockAndSeeWhatIsCommitted) {
  EXPECT_EQ(Reason(Read().status()), "NO_STORE");
  EXPECT_TRUE(absl::IsNotFound(
      Recorder::Open({.path = folder_.File("x/y.db"), .read_only = true}).status()));
  EXPECT_FALSE(fs::exists(folder_.File("x")));
  auto writer = Write();
  ASSERT_TRUE(writer.ok());
  auto reader = Read();
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE(absl::IsNotFound(reader->GetStudy("a").status()));
  ASSERT_TRUE(writer->InsertStudy(MakeStudy("a")).ok());
  EXPECT_TRUE(reader->GetStudy("a").ok());
  EXPECT_EQ(reader->ListStudies(0, "")->studies.size(), 1U);
  const auto refused = reader->InsertStudy(MakeStudy("b"));
  EXPECT_EQ(Reason(refused.status()), "STORE_READ_ONLY") << refused.status();
}

TEST_F(OpenTest, MemoryIsNeverReadOnlyAndNeverShared) {
  EXPECT_TRUE(
      absl::IsInvalidArgument(Recorder::Open({.path = ":memory:", .read_only = true}).status()));
  auto first = Recorder::Open({.path = ":memory:"});
  auto second = Recorder::Open({.path = ":memory:"});
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(first->InsertStudy(MakeStudy("a")).ok());
  EXPECT_FALSE(second->GetStudy("a").ok());
  EXPECT_FALSE(fs::exists(":memory:"));
}

TEST_F(OpenTest, BacksUpWhileOpen) {
  for (const std::string& source : {path_, std::string(":memory:")}) {
    auto recorder = Recorder::Open({.path = source});
    ASSERT_TRUE(recorder.ok());
    ASSERT_TRUE(recorder->InsertStudy(MakeStudy("a")).ok());
    const std::string copy = folder_.File(source == path_ ? "copy.db" : "copy2.db");
    ASSERT_TRUE(recorder->Backup(copy).ok());
    ASSERT_TRUE(recorder->InsertStudy(MakeStudy("later")).ok());
    EXPECT_TRUE(absl::IsAlreadyExists(recorder->Backup(copy)));
    auto restored = Recorder::Open({.path = copy});
    ASSERT_TRUE(restored.ok()) << restored.status();
    EXPECT_EQ(*restored->GetStudy("a"), *recorder->GetStudy("a"));
    EXPECT_FALSE(restored->GetStudy("later").ok());
  }
  const auto reader = Read();
  ASSERT_TRUE(reader.ok());
  EXPECT_TRUE(reader->Backup(folder_.File("copy3.db")).ok());
  EXPECT_FALSE(reader->Backup(folder_.File("none/copy.db")).ok());
}

TEST_F(OpenTest, ChecksIntegrityAfterAnUncleanStop) {
  {
    auto recorder = Write();
    ASSERT_TRUE(recorder.ok());
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(recorder->InsertStudy(MakeStudy("s" + std::to_string(i), i)).ok());
    }
  }
  // Damage inside the tables: the last eight pages, far behind what describes them, are 0xFF.
  std::string bytes = ReadFile(path_);
  std::fill(bytes.end() - 8 * 4096, bytes.end(), '\xff');
  { std::ofstream(path_, std::ios::binary) << bytes; }
  EXPECT_TRUE(Write().ok());  // an orderly stop is trusted
  { std::ofstream(path_ + "-wal") << "left behind"; }
  { std::ofstream(path_ + ".lock") << "pid 1 (a writer that was killed)"; }
  const auto recorder = Write();
  EXPECT_TRUE(absl::IsDataLoss(recorder.status()));
  EXPECT_EQ(Reason(recorder.status()), "STORE_CORRUPT") << recorder.status();
  EXPECT_EQ(Reason(Write().status()), "STORE_CORRUPT") << "a refused store is no orderly stop";
}

// Which keeps the log, with rows in it, from being removed.
TEST_F(OpenTest, TrustsAnOrderlyStopBesideAReader) {
  ASSERT_TRUE(Write().ok());
  const auto reader = Read();
  ASSERT_TRUE(reader.ok());
  ASSERT_TRUE(reader->GetStudy("none").status().code() == absl::StatusCode::kNotFound);
  for (int i = 0; i < 200; ++i) {
    auto recorder = Write();
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    ASSERT_TRUE(recorder->InsertStudy(MakeStudy("s" + std::to_string(i), i)).ok());
  }
  ASSERT_GT(fs::file_size(path_ + "-wal"), 0U);
  std::string bytes = ReadFile(path_);
  ASSERT_GT(bytes.size(), 12U * 4096);
  std::fill(bytes.end() - 2 * 4096, bytes.end(), '\xff');  // that only a check would find
  { std::ofstream(path_, std::ios::binary) << bytes; }
  EXPECT_TRUE(Write().ok());
  { std::ofstream(path_ + ".lock") << "pid 1 (a writer that was killed)"; }
  EXPECT_EQ(Reason(Write().status()), "STORE_CORRUPT");
}

TEST_F(OpenTest, ChecksIntegrityAfterTheMachineStarted) {
  ASSERT_TRUE(Write().ok());
  { std::ofstream(path_ + "-wal") << "left behind"; }
  { std::ofstream(path_ + ".lock") << "ended in order (boot of another day)"; }
  std::string bytes = ReadFile(path_);
  std::fill(bytes.end() - 4096, bytes.end(), '\xff');
  { std::ofstream(path_, std::ios::binary) << bytes; }
  EXPECT_EQ(Reason(Write().status()), "STORE_CORRUPT");
}

}  // namespace
}  // namespace meshwright

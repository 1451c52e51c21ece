// The disk fails during a call, at each of its writes and syncs. The call reports the error, the
// store is unchanged, and the same call succeeds once the disk works.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "recorder/recorder.h"
#include "recorder/sql/sql.h"
#include "recorder/sql/sqlite.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "tests/files/temporary_folder.h"
#include "tests/recorder/faulty_vfs.h"
#include "tests/recorder/run_sql.h"
#include "tests/recorder/temporary_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Returns all rows of all tables, as another process sees them.
std::string Dump(const std::string& path) {
  std::string dump;
  const auto connection = SqliteConnection::Open(path, ConnectionMode::kReadOnly);
  EXPECT_TRUE(connection.ok()) << connection.status();
  for (const std::string table :
       {"studies", "study_messages", "plans", "events", "trials", "attempts", "questions",
        "measurements", "calibrations", "clusters", "chips", "sqlite_sequence"}) {
    auto rows = Statement::Prepare(connection->get(), "SELECT * FROM " + table + " ORDER BY 1, 2");
    EXPECT_TRUE(rows.ok() && rows->Bind().ok()) << table;
    dump += table + "\n";
    while (true) {
      const auto has_row = rows->Step();
      EXPECT_TRUE(has_row.ok()) << has_row.status();
      if (!has_row.ok() || !*has_row) break;
      for (int i = 0; i < 30; ++i) dump += rows->Text(i) + "|";  // beyond the last: empty
      dump += "\n";
    }
  }
  return dump;
}

struct Case {
  const char* name;
  // Makes the `number`-th call of its kind, which succeeds on a healthy disk.
  std::function<absl::Status(Recorder&, int number)> call;
  bool needs_trials = false;
};

absl::Status Begin(Recorder& recorder, int number) {
  return recorder.BeginTrial(MakeIntent("a", fmt::format("d{}", number))).status();
}

absl::Status Finish(Recorder& recorder, int number) {
  const auto attempts = recorder.ListAttempts("a", number);
  if (!attempts.ok()) return attempts.status();
  TrialEnding ending;
  ending.study_id = "a";
  ending.trial_number = number;
  ending.attempt.attempt_id = attempts->back().id;
  ending.attempt.fencing_token = attempts->back().fencing_token;
  ending.step_time = Seconds(1);
  ending.measurement = MakeMeasurement(fmt::format("trial {}", number));
  ending.measurement->study_id = "a";
  ending.events = {MakeEvent("a")};
  return recorder.FinishTrial(ending).status();
}

absl::Status Report(Recorder& recorder, int number) {
  return recorder
      .InsertMeasurements(std::vector{MakeMeasurement(fmt::format("report {}", number)),
                                      MakeMeasurement(fmt::format("report {}b", number))})
      .status();
}

const Case kCases[] = {
    {"BeginTrial", Begin},
    {"FinishTrial", Finish, true},
    {"InsertMeasurements", Report},
    {"InsertCalibration",
     [](Recorder& recorder, int number) {
       return recorder.InsertCalibration({.id = fmt::format("c{}", number)});
     }},
};

class FaultTest : public testing::TestWithParam<Case> {
 protected:
  FaultTest() {
    auto opened = Recorder::Open({.path = path_});
    EXPECT_TRUE(opened.ok()) << opened.status();
    recorder_.emplace(*std::move(opened));
    EXPECT_TRUE(recorder_->InsertStudy(MakeStudy("a")).ok());
    for (int i = 1; GetParam().needs_trials && i <= 250; ++i) {
      EXPECT_TRUE(Begin(*recorder_, i).ok());
    }
  }

  FaultyVfs vfs_;
  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("s.db");
  std::optional<Recorder> recorder_;
};

TEST_P(FaultTest, ACallThatFailsLeavesTheStoreAsItWas) {
  int number = 0;
  for (const auto& [code, once] :
       {std::pair(SQLITE_IOERR_WRITE, true), std::pair(SQLITE_IOERR_WRITE, false),
        std::pair(SQLITE_FULL, true), std::pair(SQLITE_FULL, false)}) {
    int failed = 0;
    for (int at = 1;; ++at) {
      ++number;
      // A call that fills the log commits before the log moves into the store. A disk that fails
      // only during that move fails no call.
      RunSql(path_, "PRAGMA wal_checkpoint(TRUNCATE)");
      const std::string before = Dump(path_);
      vfs_.Arm({.at = at, .code = code, .once = once});
      const absl::Status status = GetParam().call(*recorder_, number);
      vfs_.Disarm();
      if (!vfs_.has_failed()) {
        EXPECT_TRUE(status.ok()) << status;
        break;
      }
      ++failed;
      ASSERT_FALSE(status.ok()) << "call " << at;
      EXPECT_THAT(Reason(status), testing::AnyOf("STORE_IO", "STORE_FULL")) << status;
      ASSERT_EQ(Dump(path_), before) << "call " << at;
      ASSERT_TRUE(GetParam().call(*recorder_, number).ok());
      EXPECT_NE(Dump(path_), before);
    }
    EXPECT_GE(failed, 2) << "a write and a sync at least";
  }
  // The final state survives an orderly stop.
  const std::string after = Dump(path_);
  recorder_.reset();
  auto reopened = Recorder::Open({.path = path_});
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  EXPECT_EQ(Dump(path_), after);
}

INSTANTIATE_TEST_SUITE_P(All, FaultTest, testing::ValuesIn(kCases),
                         [](const auto& tested) { return std::string(tested.param.name); });

// If calls run together, exactly those that report success are stored, whichever write fails.
TEST(FaultOfTogetherTest, WhatIsStoredIsWhatWasAcknowledged) {
  FaultyVfs vfs;
  const TemporaryFolder folder;
  auto recorder = Recorder::Open({.path = folder.File("s.db")});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  int number = 0;
  for (const auto& [code, once] :
       {std::pair(SQLITE_IOERR_WRITE, true), std::pair(SQLITE_FULL, false)}) {
    int failed = 0;
    for (int at = 1;; ++at) {
      std::vector<StoreCall> calls;
      for (int i = 0; i < 4; ++i) {
        calls.emplace_back([id = number + i](Recorder& one) { return Report(one, id); });
      }
      vfs.Arm({.at = at, .code = code, .once = once});
      const auto results = recorder->RunTogether(calls);
      vfs.Disarm();
      auto reader = Recorder::Open({.path = folder.File("s.db"), .read_only = true});
      ASSERT_TRUE(reader.ok()) << reader.status();
      for (int i = 0; i < 4; ++i) {
        const absl::Status& result = results[static_cast<std::size_t>(i)];
        EXPECT_EQ(reader->GetMeasurement(fmt::format("report {}", number + i)).ok(), result.ok());
        EXPECT_EQ(reader->GetMeasurement(fmt::format("report {}b", number + i)).ok(), result.ok());
        failed += result.ok() ? 0 : 1;
      }
      number += 4;
      if (!vfs.has_failed()) break;
    }
    EXPECT_GE(failed, 8) << "a write and a sync at least, four calls each";
  }
}

TEST(FaultOfOpenTest, AStoreThatCouldNotBeMadeIsMadeLater) {
  FaultyVfs vfs;
  int failed = 0;
  for (int at = 1;; at += 3) {  // creating a store takes some hundred writes
    const TemporaryFolder folder;
    vfs.Arm({.at = at});
    const auto made = Recorder::Open({.path = folder.File("s.db")});
    vfs.Disarm();
    if (!vfs.has_failed()) {
      EXPECT_TRUE(made.ok()) << made.status();
      break;
    }
    failed += made.ok() ? 0 : 1;
    if (!made.ok()) {
      EXPECT_EQ(Reason(made.status()), "STORE_IO") << made.status();
      auto again = Recorder::Open({.path = folder.File("s.db")});
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_TRUE(again->InsertStudy(MakeStudy("a")).ok());
    }
  }
  EXPECT_GT(failed, 10);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

// The stores that Open accepts and refuses, and the locks that it waits for.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <stop_token>

#include "recorder/recorder.h"
#include "recorder/store/schema.h"
#include "search_space/base/status.h"
#include "tests/files/temporary_folder.h"
#include "tests/recorder/run_sql.h"
#include "tests/recorder/temporary_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string Message(const absl::Status& status) { return std::string(status.message()); }

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

// Nobody but its owner reads a history, whatever the umask allows.
TEST_F(OpenTest, IsForItsOwnerAlone) {
  const mode_t before = umask(0);
  const std::string path = folder_.File("new/s.db");
  const auto recorder = Recorder::Open({.path = path});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  ASSERT_TRUE(recorder->Backup(folder_.File("new/copy.db")).ok());
  umask(before);
  int count = 0;
  for (const auto& entry : fs::directory_iterator(folder_.File("new"))) {
    const fs::perms owner = fs::perms::owner_read | fs::perms::owner_write;
    EXPECT_EQ(entry.status().permissions(), owner) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 4);  // the store, its log and index, the lock, the copy
  EXPECT_EQ(fs::status(folder_.File("new")).permissions(), fs::perms::owner_all);
}

TEST_F(OpenTest, LeavesOneFileAndTheLockBehind) {
  ASSERT_TRUE(Write().ok());
  EXPECT_TRUE(Exists("") && Exists(".lock"));
  EXPECT_FALSE(Exists("-wal") || Exists("-shm") || Exists("-journal"));
}

TEST_F(OpenTest, RefusesWhatIsNotAStore) {
  struct Case {
    const char* name;
    std::string text;  // content of the file; or else
    std::string sql;   // statements that create it
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
  RunSql(path_, fmt::format("PRAGMA user_version = {}", kSchemaVersion + 1));
  for (const auto& recorder : {Write().status(), Read().status()}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(recorder));
    EXPECT_EQ(Reason(recorder), "NEWER_STORE");
    EXPECT_THAT(Message(recorder), HasSubstr(fmt::format("schema version {}, this program knows {}",
                                                         kSchemaVersion + 1, kSchemaVersion)));
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
  // Another name of the same file refers to the same store.
  fs::create_symlink(path_, folder_.File("link.db"));
  EXPECT_EQ(Reason(Recorder::Open({.path = folder_.File("link.db")}).status()), "STORE_IN_USE");
  // The lock moves with the Recorder and is released with it.
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

TEST_F(OpenTest, ABackupThatIsStoppedLeavesNothing) {
  auto recorder = Write();
  ASSERT_TRUE(recorder.ok());
  std::stop_source stop;
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(recorder->Backup(folder_.File("copy.db"), stop.get_token())));
  EXPECT_FALSE(fs::exists(folder_.File("copy.db")));
  EXPECT_FALSE(fs::exists(folder_.File("copy.db.partial")));
  EXPECT_TRUE(recorder->Backup(folder_.File("copy.db")).ok());
}

TEST_F(OpenTest, ChecksIntegrityAfterAnUncleanStop) {
  {
    auto recorder = Write();
    ASSERT_TRUE(recorder.ok());
    for (int i = 0; i < 200; ++i) {
      ASSERT_TRUE(recorder->InsertStudy(MakeStudy("s" + std::to_string(i), i)).ok());
    }
  }
  // The damage is inside the tables: the last eight pages, far behind the schema, are 0xFF.
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

// The reader prevents the removal of the log, which has rows.
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
  std::fill(bytes.end() - 2 * 4096, bytes.end(), '\xff');  // only a check would find this
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

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

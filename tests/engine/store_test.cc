#include "server/engine/store.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <barrier>
#include <filesystem>
#include <fstream>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "recorder/records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    std::string name = (std::filesystem::temp_directory_path() / "store_test.XXXXXX").string();
    EXPECT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
  }
  ~StoreTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }
  [[nodiscard]] Recorder OpenFile() const { return Recorder::Open({.path = OpenPath()}).value(); }
  [[nodiscard]] std::string OpenPath() const { return (folder_ / "history.db").string(); }

 private:
  std::filesystem::path folder_;
};

StoreCall Insert(const std::string& id) {
  return [id](Recorder& recorder) { return recorder.InsertStudy({.id = id}).status(); };
}

std::size_t Count(Store& store) {
  const auto page = ReadFrom(
      store.Access(), [](const Recorder& recorder) { return recorder.ListStudies(1000, ""); });
  EXPECT_TRUE(page.ok()) << page.status();
  return page.ok() ? page->studies.size() : 0;
}

TEST_F(StoreTest, AReaderSeesWhatIsCommittedAndDoesNotWaitForTheWriter) {
  Store store(OpenFile());
  ASSERT_TRUE(store.Write(Insert("before")).ok());
  std::latch has_written(1);
  std::latch may_commit(1);
  std::jthread writer([&] {
    EXPECT_TRUE(store
                    .Write([&](Recorder& recorder) {
                      absl::Status inserted = Insert("after")(recorder);
                      has_written.count_down();
                      may_commit.wait();
                      return inserted;
                    })
                    .ok());
  });
  has_written.wait();
  EXPECT_EQ(Count(store), 1U);
  may_commit.count_down();
  writer.join();
  EXPECT_EQ(Count(store), 2U);
  EXPECT_GT(store.longest_hold().count(), 0);
}

// If two calls shared a Recorder, one would wait at the barrier for ever.
TEST_F(StoreTest, EachReaderHasARecorderOfItsOwn) {
  constexpr int kReaders = 20;
  Store store(OpenFile());
  std::barrier together(kReaders);
  std::vector<std::jthread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      for (int round = 0; round < 3; ++round) {
        const absl::Status status = store.Read([&](const Recorder& recorder) {
          together.arrive_and_wait();
          return recorder.ListStudies(1, "").status();
        });
        EXPECT_TRUE(status.ok()) << status;
      }
    });
  }
}

TEST_F(StoreTest, WhatIsWrittenIsReadByTheNextCall) {
  Store store(OpenFile());
  for (std::size_t i = 0; i < 50; ++i) {
    ASSERT_TRUE(store.Write(Insert(fmt::format("s{}", i))).ok());
    ASSERT_EQ(Count(store), i + 1);
  }
}

// SQLite goes on to write into files without a name, so the store itself must notice.
TEST_F(StoreTest, WhatWouldBeLostIsRefused) {
  Store store(OpenFile());
  ASSERT_TRUE(store.Write(Insert("before")).ok());
  const std::string path = OpenPath();
  for (const std::string& file : {path, path + "-wal"}) {
    std::filesystem::rename(file, path + ".away");
    for (const bool is_replaced : {false, true}) {
      if (is_replaced) std::ofstream(file) << "another";
      EXPECT_EQ(Reason(store.Check()), "STORE_LOST") << file;
      EXPECT_EQ(Reason(store.Write(Insert("lost"))), "STORE_LOST") << file;
    }
    std::filesystem::rename(path + ".away", file);
    EXPECT_TRUE(store.Check().ok()) << store.Check();
    EXPECT_TRUE(store.Write(Insert(file.ends_with("wal") ? "second" : "first")).ok());
  }
  EXPECT_EQ(Count(store), 3U);  // before, first, second
}

// A file that goes while it is written takes that with it.
TEST_F(StoreTest, AWriteIntoAFileThatGoesIsNotAcknowledged) {
  Store store(OpenFile());
  const std::string path = OpenPath();
  const absl::Status written = store.Write([&](Recorder& recorder) {
    std::filesystem::rename(path, path + ".away");
    return Insert("lost")(recorder);
  });
  EXPECT_EQ(Reason(written), "STORE_LOST");
}

TEST_F(StoreTest, AStoreInMemoryIsReadThroughItsWriter) {
  Store store(Recorder::Open({.path = ":memory:"}).value());
  ASSERT_TRUE(store.Write(Insert("a")).ok());
  EXPECT_EQ(Count(store), 1U);
}

TEST_F(StoreTest, AReaderThatThrowsIsNotUsedAgain) {
  Store store(OpenFile());
  EXPECT_THROW(static_cast<void>(
                   store.Read([](const Recorder&) -> absl::Status { throw std::bad_alloc(); })),
               std::bad_alloc);
  EXPECT_EQ(Count(store), 0U);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

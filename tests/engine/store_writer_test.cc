#include "server/engine/store_writer.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <span>
#include <stdexcept>
#include <thread>

#include "recorder/recorder.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

StoreWriter::Together OpenInMemory() {
  auto opened = Recorder::Open({.path = ":memory:"});
  EXPECT_TRUE(opened.ok()) << opened.status();
  return [recorder = std::make_shared<Recorder>(*std::move(opened))](auto calls) {
    return recorder->RunTogether(calls);
  };
}

StoreCall Insert(const std::string& id) {
  return [id](Recorder& recorder) { return recorder.InsertStudy({.id = id}).status(); };
}

std::size_t Count(StoreWriter& writer) {
  std::size_t count = 0;
  const absl::Status status = writer.Run([&count](Recorder& recorder) {
    const auto page = recorder.ListStudies(1000, "");
    if (page.ok()) count = page->studies.size();
    return page.status();
  });
  EXPECT_TRUE(status.ok()) << status;
  return count;
}

TEST(StoreWriterTest, EachCallerHearsOfItsOwnCall) {
  StoreWriter writer(OpenInMemory());
  EXPECT_TRUE(writer.Run(Insert("a")).ok());
  EXPECT_EQ(Reason(writer.Run(Insert("a"))), "STUDY_EXISTS");
  EXPECT_TRUE(writer.Run(Insert("b")).ok());
  EXPECT_EQ(Count(writer), 2U);
}

TEST(StoreWriterTest, ManyThreadsLoseAndDoubleNothing) {
  constexpr int kThreads = 8;
  constexpr int kCalls = 50;
  StoreWriter writer(OpenInMemory());
  std::atomic<int> stored = 0;
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&writer, &stored, t] {
      for (int i = 0; i < kCalls; ++i) {
        // Two threads try to insert every id, and one of them succeeds.
        const absl::Status status = writer.Run(Insert(fmt::format("{} {}", t / 2, i)));
        EXPECT_TRUE(status.ok() || Reason(status) == "STUDY_EXISTS") << status;
        stored += status.ok() ? 1 : 0;
      }
    });
  }
  threads.clear();
  EXPECT_EQ(stored, kThreads / 2 * kCalls);
  EXPECT_EQ(Count(writer), static_cast<std::size_t>(kThreads / 2 * kCalls));
}

TEST(StoreWriterTest, AnExceptionIsToldAndEndsNothing) {
  bool throws = true;
  StoreWriter writer([&throws](std::span<const StoreCall> calls) {
    if (throws) throw std::runtime_error("no memory");
    return std::vector<absl::Status>(calls.size());
  });
  const auto nothing = [](Recorder&) { return absl::OkStatus(); };
  EXPECT_TRUE(absl::IsInternal(writer.Run(nothing)));
  throws = false;
  EXPECT_TRUE(writer.Run(nothing).ok());
}

// Calls that arrive while another is being written are written together. Each sees what the
// previous ones did before anything is committed, and one that fails does not affect the others.
TEST(StoreWriterTest, WhatWaitsIsWrittenTogether) {
  StoreWriter writer(OpenInMemory());
  std::latch is_writing(1);
  std::latch may_go_on(1);
  std::jthread first([&] {
    EXPECT_TRUE(writer
                    .Run([&](Recorder&) {
                      is_writing.count_down();
                      may_go_on.wait();
                      return absl::OkStatus();
                    })
                    .ok());
  });
  is_writing.wait();
  std::atomic<int> failed = 0;
  std::vector<std::jthread> waiting;
  for (int t = 0; t < 6; ++t) {
    waiting.emplace_back([&writer, &failed, t] {
      failed += writer.Run(Insert(fmt::format("{}", t % 3))).ok() ? 0 : 1;
    });
  }
  may_go_on.count_down();
  waiting.clear();
  EXPECT_EQ(failed, 3);
  EXPECT_EQ(Count(writer), 3U);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

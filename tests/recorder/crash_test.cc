// kill -9 at any moment loses nothing that was acknowledged and doubles nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "recorder/recorder.h"
#include "search_space/status.h"
#include "tests/recorder/temporary_store.h"

namespace meshwright {
namespace {

constexpr int kGroup = 10;

// A writer in a process of its own: each byte that comes through the pipe acknowledges one more
// call. It writes until it is killed.
template <typename WriteOne>
int KillWriterAfter(const std::string& path, int acknowledged_at_least, const WriteOne& write_one) {
  std::array<int, 2> ends = {};
  if (pipe(ends.data()) != 0) return 0;
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    auto recorder = Recorder::Open({.path = path});
    for (int i = 0; recorder.ok() && write_one(*recorder, i); ++i) {
      if (write(ends[1], "+", 1) != 1) break;
    }
    _exit(1);  // only after an error: the loop has no end
  }
  close(ends[1]);
  int acknowledged = 0;
  char byte = 0;
  while (acknowledged < acknowledged_at_least && read(ends[0], &byte, 1) == 1) ++acknowledged;
  kill(child, SIGKILL);
  while (read(ends[0], &byte, 1) == 1) ++acknowledged;  // what the pipe still holds
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status)) << "the writer failed on its own";
  return acknowledged;
}

bool AppendGroup(Recorder& recorder, int number) {
  if (number == 0 && !recorder.InsertStudy(MakeStudy("a")).ok()) return false;
  std::vector<EventRecord> events;
  std::vector<PlanRecord> plans;
  for (int i = 0; i < kGroup; ++i) {
    events.push_back(MakeEvent("a", fmt::format("{}", number * kGroup + i)));
    plans.push_back(MakePlan("a", number * kGroup + i));
  }
  return recorder.AppendEvents(events).ok() && recorder.AppendPlans(plans).ok();
}

// A whole study a call, from its question to its answer.
bool RunStudy(Recorder& recorder, int number) {
  const std::string id = fmt::format("s{:04}", number);
  if (!recorder.InsertStudy(MakeStudy(id, number)).ok()) return false;
  const StudyEnding ending = {.study_id = id,
                              .time_ms = number,
                              .outcome = "improved",
                              .plans = std::vector{MakePlan(id, 0), MakePlan(id, 1)},
                              .events = {MakeEvent(id)}};
  return recorder.UpdateStudy({.study_id = id, .time_ms = number}).ok() &&
         recorder.FinishStudy(ending).ok();
}

class CrashTest : public testing::TestWithParam<int> {
 protected:
  const TemporaryFolder folder_;
  const std::string path_ = folder_.File("s.db");
};

TEST_P(CrashTest, LosesNoGroup) {
  const int acknowledged = KillWriterAfter(path_, GetParam(), AppendGroup);
  auto recorder = Recorder::Open({.path = path_});  // the lock went with the process
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  if (acknowledged == 0) return;  // killed before the first study, perhaps
  std::vector<std::string> payloads;
  std::int64_t revision = 1;
  while (true) {
    const auto events = recorder->ListEvents("a", revision, 1000);
    ASSERT_TRUE(events.ok()) << events.status();
    if (events->empty()) break;
    for (const EventRecord& event : *events) {
      ASSERT_EQ(event.revision, ++revision);  // no gap, nothing twice
      ASSERT_EQ(event.payload, fmt::format("{}", revision - 2));
      payloads.push_back(event.payload);
    }
  }
  std::vector<PlanRecord> plans;
  std::string token;
  do {
    const auto page = recorder->ListPlans("a", 1000, token);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const PlanRecord& plan : page->plans) {
      ASSERT_EQ(plan, MakePlan("a", static_cast<int>(plans.size())));
      plans.push_back(plan);
    }
    token = page->next_page_token;
  } while (!token.empty());
  // Whole groups; at most one of each was stored and not acknowledged.
  const std::size_t least = static_cast<std::size_t>(acknowledged) * kGroup;
  EXPECT_THAT(payloads.size(), testing::AnyOf(least, least + kGroup));
  EXPECT_THAT(plans.size(), testing::AnyOf(least, least + kGroup));
  // The journal goes on where it stopped.
  EXPECT_EQ(recorder->AppendEvents(std::vector{MakeEvent("a")})->at(0), revision + 1);
}

TEST_P(CrashTest, LeavesNoHalfStudy) {
  const int acknowledged = KillWriterAfter(path_, GetParam(), RunStudy);
  auto recorder = Recorder::Open({.path = path_});
  ASSERT_TRUE(recorder.ok()) << recorder.status();
  const auto orphans = recorder->InterruptOrphans([](std::string_view) { return false; }, 9);
  ASSERT_TRUE(orphans.ok()) << orphans.status();
  EXPECT_LE(orphans->size(), 1U);
  int finished = 0;
  std::string token;
  do {
    const auto page = recorder->ListStudies(1000, token);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const StudyRecord& study : page->studies) {
      const bool has_ended = study.state == StudyState::kSucceeded;
      finished += has_ended ? 1 : 0;
      EXPECT_TRUE(has_ended || study.state == StudyState::kInterrupted) << study.id;
      EXPECT_EQ(recorder->ListPlans(study.id, 0, "")->plans.size(), has_ended ? 2U : 0U);
      // queued, running, progress, succeeded; or queued, perhaps running, interrupted
      EXPECT_EQ(study.revision == 4, has_ended) << study.id;
    }
    token = page->next_page_token;
  } while (!token.empty());
  EXPECT_THAT(finished, testing::AnyOf(acknowledged, acknowledged + 1));
}

INSTANTIATE_TEST_SUITE_P(After, CrashTest, testing::Values(0, 1, 2, 7, 23, 60),
                         [](const auto& tested) { return std::to_string(tested.param); });

}  // namespace
}  // namespace meshwright

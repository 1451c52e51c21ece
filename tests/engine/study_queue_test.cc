#include "server/engine/queue/study_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> Drain(StudyQueue& queue, Lane lane) {
  std::vector<std::string> ids;
  while (const auto study = queue.Begin(lane)) ids.push_back(study->creator + ":" + study->id);
  return ids;
}

void Push(StudyQueue& queue, const std::string& creator, const std::vector<std::string>& ids) {
  for (const std::string& id : ids) queue.Push({.id = id, .creator = creator});
}

TEST(StudyQueueTest, CreatorsTakeTurns) {
  StudyQueue queue;
  Push(queue, "a", {"1", "2", "3", "4"});
  Push(queue, "", {"5", "6"});
  Push(queue, "b", {"7"});
  EXPECT_EQ(queue.CountWaiting(Lane::kSearches), 7);
  EXPECT_THAT(Drain(queue, Lane::kSearches),
              ElementsAre("a:1", ":5", "b:7", "a:2", ":6", "a:3", "a:4"));
  EXPECT_TRUE(queue.IsEmpty(Lane::kSearches));
  EXPECT_EQ(queue.CountWaiting(Lane::kSearches), 0);
  EXPECT_EQ(queue.CountRunning(Lane::kSearches), 7);
}

TEST(StudyQueueTest, WhoComesBackTakesTheLastTurn) {
  StudyQueue queue;
  Push(queue, "a", {"1", "2", "3"});
  EXPECT_EQ(queue.Begin(Lane::kSearches)->id, "1");
  Push(queue, "b", {"4", "5"});
  EXPECT_EQ(queue.Begin(Lane::kSearches)->id, "2");
  EXPECT_EQ(queue.Begin(Lane::kSearches)->id, "4");
  Push(queue, "c", {"6"});
  EXPECT_THAT(Drain(queue, Lane::kSearches), ElementsAre("a:3", "b:5", "c:6"));
}

TEST(StudyQueueTest, EachLaneHasItsOwnTurns) {
  StudyQueue queue;
  queue.Push({.id = "search", .lane = Lane::kSearches, .creator = "a"});
  queue.Push({.id = "job", .lane = Lane::kJobs, .creator = "a"});
  EXPECT_THAT(Drain(queue, Lane::kJobs), ElementsAre("a:job"));
  EXPECT_THAT(Drain(queue, Lane::kSearches), ElementsAre("a:search"));
}

TEST(StudyQueueTest, AStudyWaitsOnceAndRunsOnce) {
  StudyQueue queue;
  Push(queue, "a", {"1", "1", "2"});
  EXPECT_EQ(queue.Begin(Lane::kSearches)->id, "1");
  Push(queue, "a", {"1"});  // it still runs, so it is left out
  EXPECT_THAT(Drain(queue, Lane::kSearches), ElementsAre("a:2"));
  queue.End("1");
  Push(queue, "a", {"1"});
  EXPECT_THAT(Drain(queue, Lane::kSearches), ElementsAre("a:1"));
}

TEST(StudyQueueTest, ARemovedStudyTakesNoTurn) {
  StudyQueue queue;
  Push(queue, "a", {"1", "2"});
  Push(queue, "b", {"3"});
  queue.Remove("3");
  queue.Remove("1");
  queue.Remove("none");
  EXPECT_THAT(queue.waiting_ids(), ElementsAre("2"));
  Push(queue, "b", {"4"});
  EXPECT_THAT(Drain(queue, Lane::kSearches), ElementsAre("a:2", "b:4"));
  EXPECT_THAT(queue.waiting_ids(), IsEmpty());
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

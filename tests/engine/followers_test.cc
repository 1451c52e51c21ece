#include "server/engine/followers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

// A store with two studies that counts what is read from it.
class FollowersTest : public testing::Test {
 protected:
  FollowersTest() {
    for (const char* id : {"a", "b"}) EXPECT_TRUE(recorder_.InsertStudy({.id = id}).ok());
  }

  void Append(const std::string& study) {
    const EventRecord event = {.study_id = study, .kind = kProgressEventKind};
    EXPECT_TRUE(recorder_.AppendEvents({&event, 1}).ok());
    followers_.Publish(study);
  }

  // Returns a sink that collects the revisions that one follower received; 0 stands for the end.
  EventSink Into(std::vector<std::int64_t>& given) {
    return [&given](const std::optional<EventRecord>& event) {
      given.push_back(event.has_value() ? event->revision : 0);
    };
  }

  Recorder recorder_ = Recorder::Open({.path = ":memory:"}).value();
  int read_count_ = 0;
  bool is_broken_ = false;
  Followers followers_{{.read = [this](const StoreRead& read) -> absl::Status {
    ++read_count_;
    return is_broken_ ? absl::UnavailableError("disk") : read(recorder_);
  }}};
};

// Revision 1 is the state "queued".
TEST_F(FollowersTest, AnEventIsReadOnceForAllWhoFollowItsStudy) {
  constexpr int kFollowers = 100;
  std::vector<std::vector<std::int64_t>> given(kFollowers);
  for (auto& one : given) ASSERT_TRUE(followers_.Add("a", 0, Into(one)).ok());
  std::vector<std::int64_t> other;
  ASSERT_TRUE(followers_.Add("b", 0, Into(other)).ok());
  read_count_ = 0;
  Append("a");
  EXPECT_EQ(read_count_, 1);
  Append("a");
  EXPECT_EQ(read_count_, 2);
  for (const auto& one : given) EXPECT_THAT(one, ElementsAre(1, 2, 3));
  EXPECT_THAT(other, ElementsAre(1));
}

TEST_F(FollowersTest, AStudyThatNobodyFollowsIsNotRead) {
  Append("a");
  EXPECT_EQ(read_count_, 0);
}

TEST_F(FollowersTest, EachBeginsWhereItWantsAndGetsNothingTwice) {
  Append("a");
  Append("a");
  std::vector<std::int64_t> early;
  std::vector<std::int64_t> late;
  std::vector<std::int64_t> future;
  ASSERT_TRUE(followers_.Add("a", 1, Into(early)).ok());
  EXPECT_THAT(early, ElementsAre(2, 3));
  const EventRecord event = {.study_id = "a", .kind = kProgressEventKind};
  ASSERT_TRUE(recorder_.AppendEvents({&event, 1}).ok());  // is not published yet
  ASSERT_TRUE(followers_.Add("a", 2, Into(late)).ok());
  EXPECT_THAT(late, ElementsAre(3, 4));
  ASSERT_TRUE(followers_.Add("a", 5, Into(future)).ok());
  followers_.Publish("a");
  Append("a");
  Append("a");
  EXPECT_THAT(early, ElementsAre(2, 3, 4, 5, 6));
  EXPECT_THAT(late, ElementsAre(3, 4, 5, 6));
  EXPECT_THAT(future, ElementsAre(6));
}

TEST_F(FollowersTest, AllStudiesAreReadIfOthersWriteTheStore) {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> second;
  ASSERT_TRUE(followers_.Add("a", 1, Into(first)).ok());
  ASSERT_TRUE(followers_.Add("b", 1, Into(second)).ok());
  ASSERT_TRUE(recorder_.FinishStudy({.study_id = "a"}).ok());
  const EventRecord event = {.study_id = "b", .kind = kProgressEventKind};
  ASSERT_TRUE(recorder_.AppendEvents({&event, 1}).ok());
  EXPECT_TRUE(followers_.PublishAll().ok());
  EXPECT_TRUE(followers_.PublishAll().ok());
  EXPECT_THAT(first, ElementsAre(2, 0));
  EXPECT_THAT(second, ElementsAre(2));
}

TEST_F(FollowersTest, TheEndOfTheStudyEndsAllOnce) {
  std::vector<std::int64_t> first;
  std::vector<std::int64_t> second;
  ASSERT_TRUE(followers_.Add("a", 0, Into(first)).ok());
  ASSERT_TRUE(followers_.Add("a", 1, Into(second)).ok());
  ASSERT_TRUE(recorder_.FinishStudy({.study_id = "a"}).ok());
  followers_.Publish("a");
  followers_.Publish("a");
  followers_.Close();
  EXPECT_THAT(first, ElementsAre(1, 2, 0));
  EXPECT_THAT(second, ElementsAre(2, 0));
  std::vector<std::int64_t> after;
  ASSERT_TRUE(followers_.Add("a", 2, Into(after)).ok());
  EXPECT_THAT(after, ElementsAre(0));
}

TEST_F(FollowersTest, WhoIsRemovedHearsNothingMore) {
  std::vector<std::int64_t> removed;
  std::vector<std::int64_t> kept;
  const auto subscription = followers_.Add("a", 1, Into(removed));
  ASSERT_TRUE(followers_.Add("a", 1, Into(kept)).ok());
  followers_.Remove(*subscription);
  Append("a");
  followers_.Close();
  EXPECT_THAT(removed, IsEmpty());
  EXPECT_THAT(kept, ElementsAre(2, 0));
}

TEST_F(FollowersTest, AJournalThatCannotBeReadEndsItsFollowers) {
  std::vector<std::int64_t> given;
  ASSERT_TRUE(followers_.Add("a", 1, Into(given)).ok());
  is_broken_ = true;
  followers_.Publish("a");
  is_broken_ = false;
  Append("a");
  EXPECT_THAT(given, ElementsAre(0));
}

TEST_F(FollowersTest, ManyPagesAreHandedOut) {
  const std::vector<EventRecord> events(2500, {.study_id = "a", .kind = kProgressEventKind});
  ASSERT_TRUE(recorder_.AppendEvents(events).ok());
  std::vector<std::int64_t> given;
  ASSERT_TRUE(followers_.Add("a", 0, Into(given)).ok());
  EXPECT_EQ(given.size(), 2501U);
  EXPECT_EQ(given.back(), 2501);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

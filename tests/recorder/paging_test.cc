#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorder/recorder.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

class PagingTest : public testing::TestWithParam<StorePlace> {
 protected:
  PagingTest() {
    auto opened = Recorder::Open({.path = store_.address()});
    EXPECT_TRUE(opened.ok()) << opened.status();
    recorder_.emplace(*std::move(opened));
  }
  void Insert(const std::string& id, std::int64_t create_time_ms) {
    ASSERT_TRUE(recorder_->InsertStudy(MakeStudy(id, create_time_ms)).ok());
  }
  std::vector<std::string> Ids(const StudyPage& page) {
    std::vector<std::string> ids;
    for (const StudyRecord& study : page.studies) ids.push_back(study.id);
    return ids;
  }

  TestStore store_{GetParam()};
  std::optional<Recorder> recorder_;
};

TEST_P(PagingTest, ListsStudiesNewestFirst) {
  Insert("a", 10);
  Insert("c", 20);
  Insert("b", 20);  // as old as c, so the greater id comes first
  Insert("d", 5);
  const auto first = recorder_->ListStudies(3, "");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(Ids(*first), testing::ElementsAre("c", "b", "a"));
  EXPECT_EQ(first->studies[0].question, "");
  EXPECT_EQ(first->studies[0].revision, 1);
  EXPECT_EQ(first->studies[0].owner, "pid 1");
  const auto second = recorder_->ListStudies(3, first->next_page_token);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(Ids(*second), testing::ElementsAre("d"));
  EXPECT_EQ(second->next_page_token, "");
}

TEST_P(PagingTest, ExactPageHasNoNext) {
  Insert("a", 1);
  Insert("b", 2);
  EXPECT_EQ(recorder_->ListStudies(2, "")->next_page_token, "");
  EXPECT_NE(recorder_->ListStudies(1, "")->next_page_token, "");
}

// Pages never skip or repeat rows while new rows arrive.
TEST_P(PagingTest, RowsThatArriveNeitherRepeatNorHideOthers) {
  for (int i = 0; i < 25; ++i) Insert(fmt::format("s{:02}", i), 100 + i / 3);
  std::vector<std::string> seen;
  std::string token;
  int pages = 0;
  do {
    const auto page = recorder_->ListStudies(4, token);
    ASSERT_TRUE(page.ok()) << page.status();
    for (const std::string& id : Ids(*page)) seen.push_back(id);
    token = page->next_page_token;
    Insert(fmt::format("new{}", pages), 1000);
    ++pages;
  } while (!token.empty());
  EXPECT_EQ(pages, 7);  // 25 rows in pages of four
  std::vector<std::string> expected;
  for (int i = 24; i >= 0; --i) expected.push_back(fmt::format("s{:02}", i));
  EXPECT_EQ(seen, expected);
}

TEST_P(PagingTest, ListsPlansByRank) {
  Insert("a", 1);
  Insert("b", 1);
  ASSERT_TRUE(recorder_
                  ->FinishStudy({.study_id = "a",
                                 .plans = {MakePlan("a", 2), MakePlan("a", 0), MakePlan("a", 1)}})
                  .ok());
  ASSERT_TRUE(recorder_->FinishStudy({.study_id = "b", .plans = {MakePlan("b", 1)}}).ok());
  const auto first = recorder_->ListPlans("a", 2, "");
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(first->plans, testing::ElementsAre(MakePlan("a", 0), MakePlan("a", 1)));
  const auto second = recorder_->ListPlans("a", 2, first->next_page_token);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(second->plans, testing::ElementsAre(MakePlan("a", 2)));
  EXPECT_EQ(second->next_page_token, "");
  EXPECT_EQ(Reason(recorder_->ListPlans("b", 2, first->next_page_token).status()),
            "INVALID_PAGE_TOKEN");
  EXPECT_EQ(Reason(recorder_->ListStudies(2, first->next_page_token).status()),
            "INVALID_PAGE_TOKEN");
}

TEST_P(PagingTest, RefusesBadTokensAndSizes) {
  Insert("a", 1);
  for (const char* token : {"x", "0", "deadbeef", "deadbeef3120", "studies"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(recorder_->ListStudies(1, token).status())) << token;
    EXPECT_TRUE(absl::IsInvalidArgument(recorder_->ListPlans("a", 1, token).status())) << token;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->ListStudies(-1, "").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->ListPlans("a", -1, "").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->ListEvents("a", 0, -1).status()));
}

TEST_P(PagingTest, ListsEventsAfterARevision) {
  Insert("a", 1);
  std::vector<EventRecord> events;
  for (int i = 2; i <= 60; ++i) events.push_back(MakeEvent("a", std::to_string(i)));
  ASSERT_TRUE(recorder_->AppendEvents(events).ok());
  const auto revisions = [this](std::int64_t after, int limit) {
    std::vector<std::int64_t> found;
    const auto listed = recorder_->ListEvents("a", after, limit);
    EXPECT_TRUE(listed.ok()) << listed.status();
    for (const EventRecord& event : *listed) {
      // Revision 1 is the state's event; the payload of each other event is its revision.
      if (event.revision > 1) {
        EXPECT_EQ(event.payload, std::to_string(event.revision));
      }
      found.push_back(event.revision);
    }
    return found;
  };
  EXPECT_THAT(revisions(0, 3), testing::ElementsAre(1, 2, 3));
  EXPECT_THAT(revisions(58, 3), testing::ElementsAre(59, 60));
  EXPECT_THAT(revisions(60, 3), testing::IsEmpty());
  EXPECT_THAT(revisions(0, 0), testing::SizeIs(50));
  EXPECT_THAT(revisions(0, 100000), testing::SizeIs(60));
}

INSTANTIATE_TEST_SUITE_P(All, PagingTest, testing::ValuesIn(AllPlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

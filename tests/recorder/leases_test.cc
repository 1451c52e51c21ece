// Tests the leases by which several processes share the studies of a store.
#include "recorder/leases.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kHourMs = 3'600'000;
constexpr std::int64_t kExpired = -1;  // a lease that has expired when it is given

class LeasesTest : public testing::TestWithParam<StorePlace> {
 protected:
  LeasesTest() {
    auto opened = Recorder::Open({.path = store_.address()});
    EXPECT_TRUE(opened.ok()) << opened.status();
    recorder_.emplace(*std::move(opened));
  }
  void Insert(const std::string& id, StudyState state = StudyState::kQueued) {
    StudyRecord study = MakeStudy(id);
    study.state = state;
    ASSERT_TRUE(recorder_->InsertStudy(study).ok());
  }
  absl::StatusOr<ClaimedStudy> Claim(const std::string& id, std::int64_t lease_ms = kHourMs,
                                     const std::string& owner = "me") {
    return recorder_->ClaimStudy(
        {.study_id = id, .owner = owner, .lease_ms = lease_ms, .time_ms = 5000});
  }
  std::vector<std::string> Expired() {
    const auto expired = recorder_->InterruptExpired(7000, {});
    EXPECT_TRUE(expired.ok()) << expired.status();
    std::vector<std::string> ids;
    for (const StudyRecord& study : *expired) {
      EXPECT_EQ(study, *recorder_->GetStudy(study.id));
      ids.push_back(study.id);
    }
    return ids;
  }
  std::string ReasonOf(const StudyLease& lease) {
    return Reason(recorder_->CheckLease(lease).status());
  }

  TestStore store_{GetParam()};
  std::optional<Recorder> recorder_;
};

TEST_P(LeasesTest, AClaimedStudyRunsUnderItsToken) {
  Insert("a");
  EXPECT_FALSE(*recorder_->IsLeased("a"));
  const auto claimed = Claim("a");
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_EQ(claimed->lease, (StudyLease{.study_id = "a", .token = 1}));
  EXPECT_EQ(claimed->study, *recorder_->GetStudy("a"));
  EXPECT_EQ(claimed->study.state, StudyState::kRunning);
  EXPECT_EQ(claimed->study.owner, "me");
  EXPECT_EQ(claimed->study.start_time_ms, 5000);
  EXPECT_TRUE(*recorder_->IsLeased("a"));
  const auto standing = recorder_->CheckLease(claimed->lease);
  ASSERT_TRUE(standing.ok()) << standing.status();
  EXPECT_TRUE(standing->is_held);
  EXPECT_EQ(standing->state, StudyState::kRunning);
  EXPECT_FALSE(standing->is_to_pause);
  EXPECT_EQ(ReasonOf({.study_id = "a", .token = 2}), "STALE_LEASE");
  EXPECT_EQ(ReasonOf({.study_id = "none", .token = 1}), "STALE_LEASE");
  EXPECT_EQ(Reason(Claim("a").status()), "STUDY_TAKEN");
  EXPECT_EQ(Reason(Claim("none").status()), "UNKNOWN_STUDY");
}

TEST_P(LeasesTest, OnlyAStudyThatWaitsIsClaimed) {
  using enum StudyState;
  const std::map<StudyState, std::string> cases = {
      {kQueued, "OK"},          {kRunning, "STUDY_TAKEN"},
      {kPaused, "STUDY_TAKEN"}, {kInterrupted, "STUDY_TAKEN"},
      {kCancelling, "OK"},      {kSucceeded, "STUDY_TAKEN"},
      {kFailed, "STUDY_TAKEN"}, {kCancelled, "STUDY_TAKEN"},
  };
  std::vector<std::string> claimable;
  for (const auto& [state, expected] : cases) {
    const std::string id(Word(state));
    Insert(id, state);
    if (expected == "OK") claimable.push_back(id);
  }
  EXPECT_THAT(*recorder_->ListClaimable(), testing::UnorderedElementsAreArray(claimable));
  for (const auto& [state, expected] : cases) {
    const auto claimed = Claim(std::string(Word(state)));
    EXPECT_EQ(Reason(claimed.status()), expected) << Word(state);
  }
  // It is still to be cancelled, and only one process ends its job.
  EXPECT_EQ(recorder_->GetStudy("cancelling")->state, kCancelling);
  EXPECT_EQ(Reason(Claim("cancelling").status()), "STUDY_TAKEN");
  EXPECT_THAT(*recorder_->ListClaimable(), IsEmpty());
}

TEST_P(LeasesTest, TheOldestIsClaimableFirst) {
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(recorder_->InsertStudy(MakeStudy("s" + std::to_string(i), 1000 - i)).ok());
  }
  EXPECT_THAT(*recorder_->ListClaimable(), ElementsAre("s2", "s1", "s0"));
}

TEST_P(LeasesTest, CreatorsTakeTurns) {
  const auto insert = [this](const std::string& id, const std::string& creator, int time) {
    StudyRecord study = MakeStudy(id, time);
    study.creator = creator;
    ASSERT_TRUE(recorder_->InsertStudy(study).ok());
  };
  insert("a1", "a", 1001);
  insert("a2", "a", 1002);
  insert("a3", "a", 1003);
  insert("b1", "b", 1004);
  insert("none", "", 1005);
  insert("b2", "b", 1006);
  EXPECT_THAT(*recorder_->ListClaimable(), ElementsAre("a1", "b1", "none", "a2", "b2", "a3"));
}

TEST_P(LeasesTest, AnExpiredLeaseMakesAnotherOwner) {
  Insert("a");
  Insert("b");
  const StudyLease first = Claim("a", kExpired)->lease;
  ASSERT_TRUE(Claim("b").ok());
  // Nobody has taken it over yet.
  EXPECT_EQ(ReasonOf(first), "OK");
  EXPECT_TRUE(*recorder_->HasAbandonedStudies());
  EXPECT_THAT(Expired(), ElementsAre("a"));
  EXPECT_EQ(recorder_->GetStudy("a")->state, StudyState::kInterrupted);
  EXPECT_EQ(recorder_->GetStudy("b")->state, StudyState::kRunning);
  EXPECT_EQ(ReasonOf(first), "STALE_LEASE");
  EXPECT_TRUE(*recorder_->HasAbandonedStudies());  // until it is queued
  ASSERT_TRUE(recorder_->RequeueStudies(std::vector<std::string>{"a"}, "other", 7001).ok());
  EXPECT_FALSE(*recorder_->HasAbandonedStudies());
  const auto second = Claim("a", kHourMs, "other");
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->lease.token, first.token + 1);
  EXPECT_EQ(ReasonOf(first), "STALE_LEASE");
  EXPECT_EQ(ReasonOf(second->lease), "OK");
  EXPECT_THAT(Expired(), IsEmpty());
}

TEST_P(LeasesTest, ARenewedLeaseDoesNotExpire) {
  Insert("a");
  Insert("b");
  const std::vector<StudyLease> leases = {
      Claim("a", kExpired)->lease, Claim("b", kExpired)->lease, {.study_id = "none", .token = 1}};
  EXPECT_THAT(*recorder_->RenewLeases(leases, kHourMs), ElementsAre(true, true, false));
  EXPECT_FALSE(*recorder_->HasAbandonedStudies());
  EXPECT_THAT(Expired(), IsEmpty());
  EXPECT_THAT(*recorder_->RenewLeases(leases, kExpired), ElementsAre(true, true, false));
  EXPECT_THAT(Expired(), ElementsAre("a", "b"));
  EXPECT_THAT(*recorder_->RenewLeases(leases, kHourMs), ElementsAre(false, false, false));
  EXPECT_FALSE(*recorder_->IsLeased("a"));
}

// One without an end, as the only owner of a store has it.
TEST_P(LeasesTest, ALeaseWithoutATimeHoldsUntilItIsGivenBack) {
  Insert("a");
  const auto claimed = recorder_->ClaimStudy({.study_id = "a", .owner = "me"});
  ASSERT_TRUE(claimed.ok()) << claimed.status();
  EXPECT_THAT(Expired(), IsEmpty());
  ASSERT_TRUE(recorder_->ReleaseLease(claimed->lease).ok());
  EXPECT_EQ(recorder_->GetStudy("a")->state, StudyState::kRunning);
  EXPECT_EQ(ReasonOf(claimed->lease), "STALE_LEASE");
  EXPECT_EQ(Reason(recorder_->ReleaseLease(claimed->lease)), "STALE_LEASE");
}

// Each of these ends a lease.
TEST_P(LeasesTest, AStudyThatStopsIsLeasedToNobody) {
  const std::map<std::string, StudyState> stops = {{"paused", StudyState::kPaused},
                                                   {"queued", StudyState::kQueued},
                                                   {"interrupted", StudyState::kInterrupted}};
  for (const auto& [id, state] : stops) {
    Insert(id);
    const StudyLease lease = Claim(id)->lease;
    ASSERT_TRUE(recorder_->SetPauseWanted(id, true).ok());
    ASSERT_TRUE(recorder_->UpdateStudy({.study_id = id, .state = state}).ok());
    EXPECT_EQ(ReasonOf(lease), "STALE_LEASE") << id;
    if (state != StudyState::kQueued) {
      ASSERT_TRUE(recorder_->UpdateStudy({.study_id = id, .state = StudyState::kQueued}).ok());
    }
    EXPECT_FALSE(recorder_->CheckLease(Claim(id)->lease)->is_to_pause) << id;
  }
  Insert("ended");
  const StudyLease lease = Claim("ended")->lease;
  ASSERT_TRUE(recorder_->FinishStudy({.study_id = "ended"}).ok());
  EXPECT_EQ(ReasonOf(lease), "STALE_LEASE");
  Insert("orphan");
  const StudyLease orphan = Claim("orphan")->lease;
  ASSERT_TRUE(recorder_->InterruptOrphans([](std::string_view) { return false; }, 7000).ok());
  EXPECT_EQ(ReasonOf(orphan), "STALE_LEASE");
}

TEST_P(LeasesTest, TheHolderSeesWhatOthersWant) {
  Insert("a");
  Insert("b");
  const std::vector<StudyLease> leases = {Claim("a")->lease, Claim("b")->lease};
  ASSERT_TRUE(recorder_->SetPauseWanted("a", true).ok());
  ASSERT_TRUE(recorder_->UpdateStudy({.study_id = "b", .state = StudyState::kCancelling}).ok());
  auto standings = recorder_->ReadLeases(leases);
  ASSERT_TRUE(standings.ok()) << standings.status();
  EXPECT_TRUE(standings->at(0).is_held && standings->at(1).is_held);
  EXPECT_TRUE(standings->at(0).is_to_pause);
  EXPECT_FALSE(standings->at(1).is_to_pause);
  EXPECT_EQ(standings->at(1).state, StudyState::kCancelling);
  ASSERT_TRUE(recorder_->SetPauseWanted("a", false).ok());
  standings = recorder_->ReadLeases(leases);
  EXPECT_FALSE(standings->at(0).is_to_pause);
  EXPECT_THAT(*recorder_->ReadLeases({}), IsEmpty());
}

TEST_P(LeasesTest, AWishToPauseOutlivesItsServer) {
  Insert("a");
  ASSERT_TRUE(Claim("a", kExpired).ok());
  ASSERT_TRUE(recorder_->SetPauseWanted("a", true).ok());
  EXPECT_THAT(Expired(), ElementsAre("a"));
  const auto interrupted = recorder_->ListInterrupted();
  ASSERT_EQ(interrupted->size(), 1U);
  EXPECT_TRUE(interrupted->front().is_to_pause);
}

// The next server ends its job, if there is one.
TEST_P(LeasesTest, AnExpiredStudyThatIsBeingCancelled) {
  for (const std::string id : {"job", "none"}) {
    Insert(id);
    ASSERT_TRUE(Claim(id, kExpired).ok());
    ASSERT_TRUE(recorder_->UpdateStudy({.study_id = id, .state = StudyState::kCancelling}).ok());
  }
  const auto expired =
      recorder_->InterruptExpired(7000, [](const std::string& id) { return id == "job"; });
  ASSERT_TRUE(expired.ok()) << expired.status();
  EXPECT_EQ(recorder_->GetStudy("none")->state, StudyState::kCancelled);
  EXPECT_EQ(recorder_->GetStudy("job")->state, StudyState::kCancelling);
  EXPECT_THAT(*recorder_->ListClaimable(), ElementsAre("job"));
  EXPECT_FALSE(*recorder_->HasAbandonedStudies());
}

TEST_P(LeasesTest, LastRevisionsAndPlansOfStudies) {
  Insert("a");
  Insert("b");
  ASSERT_TRUE(recorder_->AppendEvents(std::vector{MakeEvent("b"), MakeEvent("b")}).ok());
  const std::vector<std::string> ids = {"a", "b", "none"};
  EXPECT_THAT(*recorder_->LastRevisions(ids),
              ElementsAre(testing::Pair("a", 1), testing::Pair("b", 3)));
  EXPECT_EQ(*recorder_->CountPlans("a"), 0);
  ASSERT_TRUE(
      recorder_->FinishStudy({.study_id = "a", .plans = {MakePlan("a", 0), MakePlan("a", 1)}})
          .ok());
  EXPECT_EQ(*recorder_->CountPlans("a"), 2);
  EXPECT_EQ(Reason(recorder_->CountPlans("none").status()), "UNKNOWN_STUDY");
}

INSTANTIATE_TEST_SUITE_P(All, LeasesTest, testing::ValuesIn(AllPlaces()),
                         [](const auto& c) { return NameOf(c.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

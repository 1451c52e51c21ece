// Calls that run together, and deletion by age.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "tests/files/temporary_folder.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;

class TogetherTest : public testing::TestWithParam<StorePlace> {
 protected:
  TogetherTest() {
    auto opened = Recorder::Open({.path = path_});
    EXPECT_TRUE(opened.ok()) << opened.status();
    recorder_.emplace(*std::move(opened));
  }
  static StoreCall Insert(const std::string& id) {
    return [id](Recorder& recorder) { return recorder.InsertStudy(MakeStudy(id)).status(); };
  }
  std::vector<std::string> Stored() {
    const auto reader = Recorder::Open({.path = path_, .read_only = true});
    std::vector<std::string> ids;
    const auto page = reader->ListStudies(0, "");
    for (const StudyRecord& study : page->studies) ids.push_back(study.id);
    return ids;
  }

  const TemporaryFolder folder_;
  const TestStore store_{GetParam()};
  const std::string path_ = store_.address();
  std::optional<Recorder> recorder_;
};

TEST_P(TogetherTest, ACallThatFailsUndoesItselfAlone) {
  const StoreCall half = [](Recorder& recorder) {
    // The changes of a call before it fails are undone.
    EXPECT_TRUE(recorder.InsertStudy(MakeStudy("half")).ok());
    return recorder
        .FinishStudy({.study_id = "half", .plans = {MakePlan("half", 1), MakePlan("half", 1)}})
        .status();
  };
  const auto results = recorder_->RunTogether(
      std::vector{Insert("a"), Insert("a"), half, Insert("c"), StoreCall([&](Recorder& recorder) {
                    // It sees the changes of earlier calls, which nobody else sees yet.
                    EXPECT_TRUE(recorder.GetStudy("c").ok());
                    EXPECT_THAT(Stored(), testing::IsEmpty());
                    EXPECT_FALSE(recorder.Backup(folder_.File("b.db")).ok());
                    return absl::OkStatus();
                  })});
  ASSERT_EQ(results.size(), 5U);
  EXPECT_TRUE(results[0].ok()) << results[0];
  EXPECT_EQ(Reason(results[1]), "STUDY_EXISTS");
  EXPECT_EQ(Reason(results[2]), "PLAN_EXISTS");
  EXPECT_TRUE(results[3].ok()) << results[3];
  EXPECT_THAT(Stored(), testing::UnorderedElementsAre("a", "c"));
  if (GetParam() == StorePlace::kPostgres) return;  // which has programs of its own for copies
  EXPECT_TRUE(recorder_->Backup(folder_.File("b.db")).ok());
}

TEST_P(TogetherTest, NothingToRunIsNothing) {
  EXPECT_THAT(recorder_->RunTogether({}), testing::IsEmpty());
  EXPECT_TRUE(recorder_->InsertStudy(MakeStudy("a")).ok());
}

TEST_P(TogetherTest, EstimatesAreForgottenAndMeasurementsAreNot) {
  for (const std::string id : {"old", "new", "lives"}) {
    ASSERT_TRUE(recorder_->InsertStudy(MakeStudy(id)).ok());
    ASSERT_TRUE(recorder_->AppendEvents(std::vector{MakeEvent(id), MakeEvent(id)}).ok());
    const auto begun = recorder_->BeginTrial(MakeIntent(id, "d"));
    ASSERT_TRUE(begun.ok()) << begun.status();
    MeasurementRecord measurement = MakeMeasurement("m of " + id);
    measurement.study_id = id;
    TrialEnding ending;
    ending.study_id = id;
    ending.trial_number = 1;
    ending.attempt.attempt_id = begun->attempt.id;
    ending.attempt.fencing_token = begun->attempt.fencing_token;
    ending.step_time = Seconds(1.5);
    ending.measurement = measurement;
    ASSERT_TRUE(recorder_->FinishTrial(ending).ok());
    if (id == "lives") continue;
    PlanRecord measured = MakePlan(id, 3);
    measured.state = "measured";
    ASSERT_TRUE(recorder_
                    ->FinishStudy({.study_id = id,
                                   .time_ms = id == "old" ? 5000 : 6000,
                                   .plans = {MakePlan(id, 0), MakePlan(id, 1), MakePlan(id, 2),
                                             measured, MakePlan(id, 4)}})
                    .ok());
  }
  const auto deleted = recorder_->DeleteEstimates(6000);
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->plan_count, 2);   // ranks 2 and 4 of "old"
  EXPECT_EQ(deleted->event_count, 2);  // its progress events
  const auto ranks = [this](const std::string& id) {
    std::vector<int> found;
    const auto page = recorder_->ListPlans(id, 0, "");
    for (const PlanRecord& plan : page->plans) found.push_back(plan.rank);
    return found;
  };
  EXPECT_THAT(ranks("old"), ElementsAre(0, 1, 3));
  EXPECT_THAT(ranks("new"), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_EQ(recorder_->ListEvents("lives", 0, 0)->size(), 3U);  // queued, progress, progress
  EXPECT_EQ(*recorder_->LastMeasurementSequence(), 3);
  EXPECT_EQ(recorder_->ListTrials({.study_id = "old"}, TrialOrder::kNumber, 0, "")->trials.size(),
            1U);
  EXPECT_EQ(recorder_->ListAttempts("old", 1)->size(), 1U);
  // The remaining events keep their numbers: queued, progress, progress, succeeded.
  const auto events = recorder_->ListEvents("old", 0, 0);
  ASSERT_EQ(events->size(), 2U);
  EXPECT_EQ(events->at(1).revision, 4);
  EXPECT_EQ(recorder_->GetStudy("old")->revision, 4);
  EXPECT_EQ(deleted->last_study, "old");
  const auto again = recorder_->DeleteEstimates(6000);
  EXPECT_EQ(again->plan_count, 0);
  EXPECT_EQ(again->last_study, "old");
  EXPECT_EQ(recorder_->DeleteEstimates(6000, "old")->last_study, "");
}

// Each call handles ten studies, so that a writer never waits longer than that.
TEST_P(TogetherTest, EstimatesAreDeletedInGroups) {
  for (int i = 10; i < 35; ++i) {
    const std::string id = fmt::format("s{}", i);
    ASSERT_TRUE(recorder_->InsertStudy(MakeStudy(id)).ok());
    ASSERT_TRUE(recorder_->AppendEvents(std::vector{MakeEvent(id)}).ok());
    ASSERT_TRUE(recorder_->FinishStudy({.study_id = id, .time_ms = 5000}).ok());
  }
  std::vector<std::int64_t> counts;
  std::string last;
  do {
    const auto deleted = recorder_->DeleteEstimates(6000, last);
    ASSERT_TRUE(deleted.ok()) << deleted.status();
    counts.push_back(deleted->event_count);
    last = deleted->last_study;
  } while (!last.empty());
  EXPECT_THAT(counts, ElementsAre(10, 10, 5, 0));
}

INSTANTIATE_TEST_SUITE_P(All, TogetherTest, testing::ValuesIn(DurablePlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

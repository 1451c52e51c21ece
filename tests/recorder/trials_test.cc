#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "server/engine/study_record.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Every test runs in memory, and on stores that are closed and reopened before each check.
class TrialsTest : public testing::TestWithParam<StorePlace> {
 protected:
  TrialsTest() {
    Open();
    EXPECT_TRUE(recorder_->InsertStudy(MakeStudy("a")).ok());
  }
  void Open() {
    auto opened = Recorder::Open({.path = store_.address()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    recorder_.emplace(*std::move(opened));
  }
  void Reopen() {
    if (!store_.outlives_recorder()) return;
    recorder_.reset();
    Open();
  }
  BegunTrial Begin(const std::string& digest) {
    const auto begun = recorder_->BeginTrial(MakeIntent("a", digest));
    EXPECT_TRUE(begun.ok()) << begun.status();
    return begun.value_or(BegunTrial());
  }
  static TrialEnding EndingOf(const AttemptRecord& attempt) {
    MeasurementRecord measurement = MakeMeasurement("m of " + attempt.id);
    measurement.source = MeasurementSource::kTrial;
    measurement.study_id = attempt.study_id;
    return {.study_id = attempt.study_id,
            .trial_number = attempt.trial_number,
            .attempt = {.attempt_id = attempt.id,
                        .fencing_token = attempt.fencing_token,
                        .device_time = Seconds(640),
                        .log_tail = "done",
                        .time_ms = 3000},
            .step_time = Seconds(1.5),
            .peak_memory = GiB(40),
            .measurement = measurement,
            .events = {MakeEvent(attempt.study_id)}};
  }
  std::vector<TrialRecord> List(const TrialFilter& filter, TrialOrder order, int page_size) {
    std::vector<TrialRecord> trials;
    std::string token;
    do {
      const auto page = recorder_->ListTrials(filter, order, page_size, token);
      EXPECT_TRUE(page.ok()) << page.status();
      if (!page.ok()) break;
      trials.insert(trials.end(), page->trials.begin(), page->trials.end());
      token = page->next_page_token;
    } while (!token.empty());
    return trials;
  }
  std::vector<int> Numbers(const TrialFilter& filter, TrialOrder order, int page_size = 2) {
    std::vector<int> numbers;
    for (const TrialRecord& trial : List(filter, order, page_size)) numbers.push_back(trial.number);
    return numbers;
  }

  TestStore store_{GetParam()};
  std::optional<Recorder> recorder_;
};

TEST_P(TrialsTest, ATrialIsWrittenDownBeforeItIsSubmitted) {
  const BegunTrial begun = Begin("d1");
  const TrialRecord trial = {.study_id = "a",
                             .number = 1,
                             .plan_key = "tp2,pp2",
                             .plan_digest = "d1",
                             .plan = std::string("\0plan", 5),
                             .expected_step_time = Seconds(1.25),
                             .success_probability = 0.9,
                             .start_time_ms = 2000};
  const AttemptRecord attempt = {.id = "a-t1-a1",
                                 .study_id = "a",
                                 .trial_number = 1,
                                 .number = 1,
                                 .fencing_token = 1,
                                 .launcher = "replay",
                                 .create_time_ms = 2000};
  EXPECT_EQ(begun.trial, trial);
  EXPECT_EQ(begun.attempt, attempt);
  Reopen();
  EXPECT_THAT(recorder_->ListTrials({.study_id = "a"}, TrialOrder::kNumber, 0, "")->trials,
              testing::ElementsAre(trial));
  EXPECT_THAT(*recorder_->ListAttempts("a", 1), testing::ElementsAre(attempt));
}

TEST_P(TrialsTest, APlanIsTriedOnceInAStudy) {
  Begin("d1");
  const auto again = recorder_->BeginTrial(MakeIntent("a", "d1"));
  EXPECT_TRUE(absl::IsAlreadyExists(again.status()));
  EXPECT_EQ(Reason(again.status()), "TRIAL_EXISTS") << again.status();
  EXPECT_EQ(Begin("d2").trial.number, 2);
  ASSERT_TRUE(recorder_->InsertStudy(MakeStudy("b")).ok());
  const auto other = recorder_->BeginTrial(MakeIntent("b", "d1"));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->trial.number, 1);
  EXPECT_EQ(other->attempt.fencing_token, 3);  // increases over the whole store
}

TEST_P(TrialsTest, AnAttemptGoesForward) {
  const AttemptRecord first = Begin("d1").attempt;
  AttemptUpdate update = {.attempt_id = first.id,
                          .fencing_token = first.fencing_token,
                          .external_id = "slurm 7",
                          .time_ms = 2001};
  ASSERT_TRUE(recorder_->UpdateAttempt(update).ok());
  update.state = AttemptState::kRunning;
  update.external_id = {};
  update.time_ms = 2002;
  ASSERT_TRUE(recorder_->UpdateAttempt(update).ok());
  update.time_ms = 2009;
  const auto again = recorder_->UpdateAttempt(update);  // the same update again
  ASSERT_TRUE(again.ok()) << again.status();
  AttemptRecord expected = first;
  expected.state = AttemptState::kRunning;
  expected.external_id = "slurm 7";
  expected.submit_time_ms = 2001;
  expected.start_time_ms = 2002;
  EXPECT_EQ(*again, expected);

  update.state = AttemptState::kSubmitted;
  EXPECT_EQ(Reason(recorder_->UpdateAttempt(update).status()), "ATTEMPT_STATE");
  update.state = AttemptState::kEnded;
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->UpdateAttempt(update).status()));
  update.state = AttemptState::kRunning;
  update.fencing_token = 99;
  EXPECT_EQ(Reason(recorder_->UpdateAttempt(update).status()), "STALE_TOKEN");
  update.attempt_id = "x";
  EXPECT_EQ(Reason(recorder_->UpdateAttempt(update).status()), "UNKNOWN_ATTEMPT");
  Reopen();
  EXPECT_THAT(*recorder_->ListAttempts("a", 1), testing::ElementsAre(expected));
}

TEST_P(TrialsTest, ATrialEndsWithItsAttemptItsMeasurementAndItsEvents) {
  const BegunTrial begun = Begin("d1");
  const TrialEnding ending = EndingOf(begun.attempt);
  const auto ended = recorder_->FinishTrial(ending);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_TRUE(ended->is_new);
  EXPECT_THAT(ended->revisions, testing::ElementsAre(2));  // after "queued"
  TrialRecord expected = begun.trial;
  expected.state = TrialState::kEnded;
  expected.outcome = Outcome::kOk;
  expected.step_time = Seconds(1.5);
  expected.peak_memory = GiB(40);
  expected.device_time = Seconds(640);
  expected.end_time_ms = 3000;
  expected.measurement_sequence = 1;
  EXPECT_EQ(ended->trial, expected);

  // The same ending again duplicates nothing.
  const auto again = recorder_->FinishTrial(ending);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->is_new);
  EXPECT_EQ(again->trial, expected);
  Reopen();
  EXPECT_THAT(List({.study_id = "a"}, TrialOrder::kNumber, 1), testing::ElementsAre(expected));
  EXPECT_EQ(recorder_->ListAttempts("a", 1)->at(0).log_tail, "done");
  EXPECT_EQ(*recorder_->LastMeasurementSequence(), 1);
  EXPECT_EQ(recorder_->GetMeasurement("m of a-t1-a1")->study_id, "a");
  EXPECT_EQ(recorder_->ListEvents("a", 0, 0)->size(), 2U);
}

TEST_P(TrialsTest, AnotherEndingIsRefused) {
  const AttemptRecord attempt = Begin("d1").attempt;
  const TrialEnding ending = EndingOf(attempt);
  ASSERT_TRUE(recorder_->FinishTrial(ending).ok());
  TrialEnding other = ending;
  other.step_time = Seconds(1.75);
  EXPECT_EQ(Reason(recorder_->FinishTrial(other).status()), "TRIAL_ENDED");
  other = ending;
  other.attempt.outcome = Outcome::kOom;
  EXPECT_EQ(Reason(recorder_->FinishTrial(other).status()), "ATTEMPT_ENDED");
  EXPECT_EQ(Reason(recorder_->FinishAttempt(other.attempt).status()), "ATTEMPT_ENDED");
  EXPECT_TRUE(recorder_->FinishAttempt(ending.attempt).ok());
  EXPECT_EQ(Reason(recorder_->AddAttempt({.study_id = "a", .trial_number = 1}).status()),
            "TRIAL_ENDED");
  EXPECT_EQ(*recorder_->LastMeasurementSequence(), 1);
}

TEST_P(TrialsTest, NothingOfARefusedEndingIsStored) {
  const AttemptRecord attempt = Begin("d1").attempt;
  ASSERT_TRUE(recorder_->InsertMeasurements(std::vector{MakeMeasurement("taken")}).ok());
  TrialEnding ending = EndingOf(attempt);
  ending.measurement->id = "taken";
  EXPECT_EQ(Reason(recorder_->FinishTrial(ending).status()), "MEASUREMENT_EXISTS");
  ending = EndingOf(attempt);
  ending.events.push_back(MakeEvent("b"));
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->FinishTrial(ending).status()));
  ending = EndingOf(attempt);
  ending.measurement->study_id = "b";
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->FinishTrial(ending).status()));
  ending = EndingOf(attempt);
  ending.measurement->step_time = {};
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->FinishTrial(ending).status()));
  Reopen();
  EXPECT_EQ(recorder_->ListAttempts("a", 1)->at(0).state, AttemptState::kIntended);
  EXPECT_EQ(*recorder_->LastMeasurementSequence(), 1);
  EXPECT_EQ(recorder_->ListEvents("a", 0, 0)->size(), 1U);
  EXPECT_TRUE(recorder_->FinishTrial(EndingOf(attempt)).ok());
}

TEST_P(TrialsTest, ANewAttemptSupersedesOneThatNobodyHearsOf) {
  const AttemptRecord first = Begin("d1").attempt;
  Reopen();
  const auto second = recorder_->AddAttempt(
      {.study_id = "a", .trial_number = 1, .launcher = "local", .time_ms = 2500});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(second->id, "a-t1-a2");
  EXPECT_EQ(second->fencing_token, 2);
  EXPECT_EQ(second->launcher, "local");
  AttemptRecord superseded = first;
  superseded.state = AttemptState::kEnded;
  superseded.outcome = Outcome::kCancelled;
  superseded.failure_class = kSuperseded;
  superseded.end_time_ms = 2500;
  EXPECT_THAT(*recorder_->ListAttempts("a", 1), testing::ElementsAre(superseded, *second));
  // The first attempt reports after all.
  EXPECT_EQ(Reason(recorder_->FinishTrial(EndingOf(first)).status()), "STALE_TOKEN");
  EXPECT_EQ(Reason(recorder_
                       ->UpdateAttempt({.attempt_id = first.id,
                                        .fencing_token = first.fencing_token,
                                        .time_ms = 2600})
                       .status()),
            "STALE_TOKEN");
  EXPECT_TRUE(recorder_->FinishTrial(EndingOf(*second)).ok());
}

TEST_P(TrialsTest, AFailedAttemptIsTriedAgain) {
  const AttemptRecord first = Begin("d1").attempt;
  const AttemptEnding failure = {.attempt_id = first.id,
                                 .fencing_token = first.fencing_token,
                                 .outcome = Outcome::kCrash,
                                 .failure_class = "node",
                                 .device_time = Seconds(64),
                                 .time_ms = 2100};
  ASSERT_TRUE(recorder_->FinishAttempt(failure).ok());
  const auto second = recorder_->AddAttempt({.study_id = "a", .trial_number = 1, .time_ms = 2200});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_TRUE(recorder_->FinishAttempt(failure).ok());  // the same ending again
  const auto ended = recorder_->FinishTrial(EndingOf(*second));
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->trial.device_time, Seconds(704));  // 64 + 640
  EXPECT_EQ(recorder_->ListAttempts("a", 1)->at(0).failure_class, "node");
}

TEST_P(TrialsTest, OpenJobsAreCountedByLauncher) {
  const auto begin = [this](const std::string& digest, const std::string& launcher) {
    TrialIntent intent = MakeIntent("a", digest);
    intent.launcher = launcher;
    const auto begun = recorder_->BeginTrial(intent);
    EXPECT_TRUE(begun.ok()) << begun.status();
    return begun->attempt;
  };
  begin("d1", "replay");
  begin("d2", "slurm");
  const AttemptRecord running = begin("d3", "slurm");
  ASSERT_TRUE(recorder_->FinishTrial(EndingOf(begin("d4", "local"))).ok());
  begin("d5", "local");
  ASSERT_TRUE(recorder_
                  ->UpdateAttempt({.attempt_id = running.id,
                                   .fencing_token = running.fencing_token,
                                   .state = AttemptState::kRunning})
                  .ok());
  EXPECT_THAT(
      *recorder_->CountOpenJobs(),
      testing::ElementsAre(OpenJobs{.launcher = "local", .waiting_count = 1},
                           OpenJobs{.launcher = "slurm", .waiting_count = 1, .running_count = 1}));
}

TEST_P(TrialsTest, TheUseOfACreatorIsThatOfAllItsStudies) {
  const auto insert = [this](const std::string& id, const std::string& creator) {
    StudyRecord study = MakeStudy(id);
    study.creator = creator;
    study.device_time_limit = Seconds(1000);
    ASSERT_TRUE(recorder_->InsertStudy(study).ok());
  };
  // Runs a job of 640 device seconds that ends at 3,000 ms.
  const auto run = [this](const std::string& id, const std::string& digest,
                          const std::string& launcher) {
    TrialIntent intent = MakeIntent(id, digest);
    intent.launcher = launcher;
    const auto begun = recorder_->BeginTrial(intent);
    ASSERT_TRUE(begun.ok()) << begun.status();
    ASSERT_TRUE(recorder_->FinishTrial(EndingOf(begun->attempt)).ok());
  };
  EXPECT_THAT(*recorder_->CountOpenJobs(), testing::IsEmpty());
  insert("one", "ci");
  insert("two", "ci");
  insert("other", "somebody");
  EXPECT_EQ(*recorder_->CountOpenStudies("ci"), 2);
  EXPECT_EQ(*recorder_->CountOpenStudies("nobody"), 0);
  EXPECT_EQ(*recorder_->UseOf("ci", 0), (CreatorUse{.promised = Seconds(2000)}));
  run("one", "d1", "slurm");
  run("one", "d2", "replay");  // runs no job
  run("other", "d1", "slurm");
  EXPECT_EQ(*recorder_->UseOf("ci", 2999),
            (CreatorUse{.used = Seconds(640), .promised = Seconds(1360)}));
  EXPECT_EQ(*recorder_->UseOf("ci", 3000), (CreatorUse{.promised = Seconds(1360)}));
  run("one", "d3", "slurm");  // beyond the limit of the study, which then promises nothing
  EXPECT_EQ(*recorder_->UseOf("ci", 0),
            (CreatorUse{.used = Seconds(1280), .promised = Seconds(1000)}));
  // The use of a study outlives it, so that deleting makes no room.
  ASSERT_TRUE(
      recorder_->FinishStudy({.study_id = "one", .state = StudyState::kFailed, .time_ms = 4000})
          .ok());
  EXPECT_EQ(*recorder_->CountOpenStudies("ci"), 1);
  const CreatorUse rest = {.used = Seconds(1280), .promised = Seconds(1000)};
  EXPECT_EQ(*recorder_->UseOf("ci", 0), rest);
  ASSERT_TRUE(recorder_->DeleteStudy({.study_id = "one", .time_ms = 5000}).ok());
  EXPECT_EQ(*recorder_->UseOf("ci", 3999), rest);
  EXPECT_EQ(*recorder_->UseOf("ci", 4000), (CreatorUse{.promised = Seconds(1000)}));
}

// A crash that is not retried ends the trial too.
TEST_P(TrialsTest, ATrialEndsAfterItsAttemptHas) {
  TrialEnding ending = EndingOf(Begin("d1").attempt);
  ending.attempt.outcome = Outcome::kCrash;
  ending.step_time = {};
  ending.peak_memory = {};
  ending.measurement = {};
  ASSERT_TRUE(recorder_->FinishAttempt(ending.attempt).ok());
  const auto ended = recorder_->FinishTrial(ending);
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->trial.outcome, Outcome::kCrash);
  EXPECT_EQ(ended->trial.step_time, std::nullopt);
  EXPECT_EQ(ended->trial.measurement_sequence, std::nullopt);
}

TEST_P(TrialsTest, AStudyThatHasEndedBeginsNoTrialButTakesTheirEnds) {
  const AttemptRecord attempt = Begin("d1").attempt;
  Begin("d2");
  ASSERT_TRUE(
      recorder_->FinishStudy({.study_id = "a", .state = StudyState::kCancelled, .time_ms = 2500})
          .ok());
  EXPECT_EQ(Reason(recorder_->BeginTrial(MakeIntent("a", "d3")).status()), "STUDY_ENDED");
  EXPECT_EQ(Reason(recorder_->AddAttempt({.study_id = "a", .trial_number = 2}).status()),
            "STUDY_ENDED");
  EXPECT_TRUE(recorder_->FinishTrial(EndingOf(attempt)).ok());
  EXPECT_EQ(*recorder_->LastMeasurementSequence(), 1);
}

TEST_P(TrialsTest, ListsByNumberAndByStepTime) {
  // The third and fifth are equally fast, so the earlier comes first. The fourth ran out of memory.
  const double kTimes[] = {2.0, 1.0, 0.5, 0, 0.5, 0.1 + 0.2};
  for (int i = 0; i < 6; ++i) {
    TrialEnding ending = EndingOf(Begin("d" + std::to_string(i)).attempt);
    if (kTimes[i] > 0) {
      ending.step_time = Seconds(kTimes[i]);
    } else {
      ending.step_time = {};
      ending.attempt.outcome = Outcome::kOom;
      ending.measurement = {};
    }
    ASSERT_TRUE(recorder_->FinishTrial(ending).ok());
  }
  Begin("open");
  using testing::ElementsAre;
  for (const int size : {1, 2, 3, 100}) {
    EXPECT_THAT(Numbers({.study_id = "a"}, TrialOrder::kNumber, size),
                ElementsAre(1, 2, 3, 4, 5, 6, 7));
    EXPECT_THAT(Numbers({.study_id = "a"}, TrialOrder::kFastest, size), ElementsAre(6, 3, 5, 2, 1));
    EXPECT_THAT(Numbers({.study_id = "a", .state = TrialState::kOpen}, TrialOrder::kNumber, size),
                ElementsAre(7));
    EXPECT_THAT(Numbers({.study_id = "a", .outcome = Outcome::kOom}, TrialOrder::kNumber, size),
                ElementsAre(4));
    EXPECT_THAT(Numbers({.study_id = "a", .outcome = Outcome::kOk}, TrialOrder::kFastest, size),
                ElementsAre(6, 3, 5, 2, 1));
  }
  const auto page = recorder_->ListTrials({.study_id = "a"}, TrialOrder::kNumber, 2, "");
  EXPECT_EQ(
      Reason(
          recorder_->ListTrials({.study_id = "a"}, TrialOrder::kFastest, 2, page->next_page_token)
              .status()),
      "INVALID_PAGE_TOKEN");
  EXPECT_EQ(Reason(recorder_->ListTrials({.study_id = "x"}, TrialOrder::kNumber, 0, "").status()),
            "UNKNOWN_STUDY");
  EXPECT_EQ(Reason(recorder_->ListAttempts("a", 9).status()), "UNKNOWN_TRIAL");
}

TEST_P(TrialsTest, TheHistoryOfAStudyIsSetOnce) {
  EXPECT_EQ(recorder_->GetStudy("a")->history_sequence, std::nullopt);
  EXPECT_EQ(*recorder_->SetStudyHistory("a", 5), 5);
  EXPECT_EQ(*recorder_->SetStudyHistory("a", 9), 5);
  Reopen();
  EXPECT_EQ(recorder_->GetStudy("a")->history_sequence, 5);
  EXPECT_EQ(Reason(recorder_->SetStudyHistory("x", 1).status()), "UNKNOWN_STUDY");
}

INSTANTIATE_TEST_SUITE_P(All, TrialsTest, testing::ValuesIn(AllPlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

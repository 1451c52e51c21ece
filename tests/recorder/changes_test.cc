// Tests that studies are deleted and run again as a whole or not at all, that repeated calls get
// their first answers, and who has called what.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "recorder/call_records.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "search_space/spec/attempt.h"
#include "search_space/spec/choices.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::int64_t kDay = 86'400'000;

class ChangesTest : public testing::TestWithParam<StorePlace> {
 protected:
  ChangesTest() { Open(); }
  void Open() {
    recorder_.reset();
    auto opened = Recorder::Open({.path = place_.address()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    recorder_.emplace(*std::move(opened));
  }
  Recorder& store() { return *recorder_; }
  std::vector<std::string> Sql(const std::string& sql) { return place_.Sql(sql); }

  void Insert(const std::string& id, const std::optional<std::string>& request_id = {}) {
    StudyRecord study = MakeStudy(id);
    study.request_id = request_id;
    ASSERT_TRUE(store().InsertStudy(study).ok());
  }
  // Begins a trial and ends it; without an outcome it stays open.
  void Try(const std::string& study, const std::string& digest, std::optional<Outcome> outcome) {
    const auto begun = store().BeginTrial(MakeIntent(study, digest));
    ASSERT_TRUE(begun.ok()) << begun.status();
    if (outcome.has_value()) EndAs(begun->attempt, *outcome);
  }
  void EndAs(const AttemptRecord& attempt, Outcome outcome, const std::string& failure_class = "") {
    MeasurementRecord measurement = MakeMeasurement("m of " + attempt.id);
    measurement.study_id = attempt.study_id;
    measurement.outcome = outcome;
    TrialEnding ending = {.study_id = attempt.study_id,
                          .trial_number = attempt.trial_number,
                          .attempt = {.attempt_id = attempt.id,
                                      .fencing_token = attempt.fencing_token,
                                      .outcome = outcome,
                                      .failure_class = failure_class,
                                      .device_time = Seconds(10),
                                      .log_tail = "said",
                                      .time_ms = 3000}};
    if (outcome == Outcome::kOk) ending.step_time = Seconds(1.5);
    if (outcome != Outcome::kOk) measurement.step_time.reset();
    ending.measurement = measurement;
    const auto ended = store().FinishTrial(ending);
    ASSERT_TRUE(ended.ok()) << ended.status();
  }
  void Finish(const std::string& id) {
    ASSERT_TRUE(store()
                    .FinishStudy({.study_id = id,
                                  .time_ms = 4000,
                                  .outcome = "improved",
                                  .result = "r",
                                  .best_step_time = Seconds(1.5),
                                  .plans = {MakePlan(id, 1)}})
                    .ok());
  }
  // A study that has ended, with trials that ended so.
  void Ended(const std::string& id, const std::vector<Outcome>& outcomes) {
    Insert(id);
    for (std::size_t i = 0; i < outcomes.size(); ++i) {
      Try(id, "d" + std::to_string(i), outcomes[i]);
    }
    Finish(id);
  }
  std::vector<std::string> Retracted() {
    return Sql("SELECT measurement_id || ': ' || reason FROM retractions ORDER BY sequence");
  }

 private:
  TestStore place_{GetParam()};
  std::optional<Recorder> recorder_;
};

TEST_P(ChangesTest, ADeletedStudyLeavesOnlyItsMeasurements) {
  Ended("a", {Outcome::kOk, Outcome::kOom});
  Ended("b", {Outcome::kOk});
  const auto deleted = store().DeleteStudy({.study_id = "a", .time_ms = 5000});
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->trial_count, 2);
  EXPECT_EQ(deleted->retracted_count, 0);
  EXPECT_EQ(Reason(store().GetStudy("a").status()), "UNKNOWN_STUDY");
  for (const std::string table :
       {"study_messages", "plans", "events", "trials", "attempts", "study_labels"}) {
    EXPECT_THAT(Sql("SELECT DISTINCT study_id FROM " + table + " WHERE study_id = 'a'"), IsEmpty())
        << table;
  }
  EXPECT_THAT(Sql("SELECT study_id FROM measurements ORDER BY sequence"),
              ElementsAre("a", "a", "b"));
  EXPECT_THAT(Retracted(), IsEmpty());
  EXPECT_EQ(store().GetStudy("b")->state, StudyState::kSucceeded);
  EXPECT_EQ(Reason(store().DeleteStudy({.study_id = "a"}).status()), "UNKNOWN_STUDY");
}

TEST_P(ChangesTest, MeasurementsAreRetractedWithTheirStudyIfAsked) {
  Ended("a", {Outcome::kOk, Outcome::kOom});
  Ended("b", {Outcome::kOk});
  ASSERT_TRUE(store().RetractMeasurement("m of a-t1-a1", {.reason = "a slow node"}).ok());
  const auto deleted =
      store().DeleteStudy({.study_id = "a", .retracts_measurements = true, .time_ms = 5000});
  ASSERT_TRUE(deleted.ok()) << deleted.status();
  EXPECT_EQ(deleted->retracted_count, 1);
  EXPECT_THAT(Retracted(),
              ElementsAre("m of a-t1-a1: a slow node", "m of a-t2-a1: study a was deleted"));
}

TEST_P(ChangesTest, OnlyAStudyThatHasEndedIsDeleted) {
  Insert("a");
  for (const StudyState state : {StudyState::kQueued, StudyState::kRunning, StudyState::kPaused,
                                 StudyState::kInterrupted, StudyState::kCancelling}) {
    ASSERT_TRUE(store().UpdateStudy({.study_id = "a", .state = state}).ok());
    const auto deleted = store().DeleteStudy({.study_id = "a"});
    EXPECT_EQ(Reason(deleted.status()), "STUDY_NOT_ENDED") << Word(state);
  }
  Finish("a");
  EXPECT_EQ(Reason(store().DeleteStudy({.study_id = "a", .edit_count = 7}).status()),
            "STALE_STUDY");
  EXPECT_TRUE(store().DeleteStudy({.study_id = "a", .edit_count = 0}).ok());
}

// A later study of that name would find the results of the earlier one's jobs.
TEST_P(ChangesTest, ADeletedStudysIdsAreNeverUsedAgain) {
  Insert("a", "request");
  Try("a", "d1", Outcome::kOk);
  Finish("a");
  ASSERT_TRUE(store().DeleteStudy({.study_id = "a"}).ok());
  const auto same_id = store().InsertStudy(MakeStudy("a"));
  EXPECT_EQ(Reason(same_id.status()), "STUDY_DELETED");
  StudyRecord other = MakeStudy("b");
  other.request_id = "request";
  EXPECT_EQ(Reason(store().InsertStudy(other).status()), "STUDY_DELETED");
  Insert("b");
  EXPECT_EQ(store().BeginTrial(MakeIntent("b", "d1"))->attempt.fencing_token, 2);
}

TEST_P(ChangesTest, FailedTrialsAreOpenedByTheirClass) {
  Insert("a");
  const std::pair<Outcome, const char*> ends[] = {{Outcome::kOk, ""},
                                                  {Outcome::kCrash, "crash"},
                                                  {Outcome::kTimeout, "timeout"},
                                                  {Outcome::kCrash, "crash"},
                                                  {Outcome::kOom, "oom_device"}};
  int count = 0;
  for (const auto& [outcome, name] : ends) {
    const auto begun = store().BeginTrial(MakeIntent("a", "d" + std::to_string(++count)));
    ASSERT_TRUE(begun.ok()) << begun.status();
    EndAs(begun->attempt, outcome, name);
  }
  Finish("a");
  const auto none =
      store().ReopenStudy({.study_id = "a", .failure_classes = {"crash", "node_failure"}});
  EXPECT_EQ(Reason(none.status()), "NO_FAILED_TRIALS");
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("of class 'node_failure'; it has crash, oom_device, timeout"));
  EXPECT_EQ(store().GetStudy("a")->state, StudyState::kSucceeded);  // all or nothing
  const auto reopened =
      store().ReopenStudy({.study_id = "a", .failure_classes = {"timeout", "crash"}});
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  EXPECT_THAT(reopened->trial_numbers, ElementsAre(2, 3, 4));
  EXPECT_EQ(store().GetTrial("a", 5)->state, TrialState::kEnded);
}

TEST_P(ChangesTest, FailedTrialsAreOpenedAndTheOthersStay) {
  Ended("a", {Outcome::kOk, Outcome::kOom, Outcome::kOk, Outcome::kTimeout});
  const auto reopened = store().ReopenStudy({.study_id = "a", .owner = "pid 2", .time_ms = 5000});
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  EXPECT_THAT(reopened->trial_numbers, ElementsAre(2, 4));
  EXPECT_EQ(reopened->study.state, StudyState::kQueued);
  EXPECT_EQ(reopened->study.outcome, "");
  EXPECT_EQ(reopened->study.owner, "pid 2");
  EXPECT_FALSE(reopened->study.end_time_ms.has_value());
  EXPECT_FALSE(reopened->study.result.has_value());
  EXPECT_FALSE(reopened->study.best_step_time.has_value());
  EXPECT_THAT(store().ListPlans("a", 0, "")->plans, IsEmpty());
  EXPECT_THAT(Sql("SELECT number || state FROM trials WHERE outcome IS NULL ORDER BY number"),
              ElementsAre("2open", "4open"));
  EXPECT_THAT(Sql("SELECT payload FROM events WHERE kind = 'state' ORDER BY revision"),
              ElementsAre("queued", "succeeded", "queued"));
  // It takes the next end, although it had one.
  Finish("a");
  EXPECT_EQ(store().GetStudy("a")->state, StudyState::kSucceeded);
}

TEST_P(ChangesTest, TheNewMeasurementTakesThePlaceOfTheFormer) {
  Ended("a", {Outcome::kOom});
  ASSERT_TRUE(store().ReopenStudy({.study_id = "a"}).ok());
  EXPECT_THAT(Retracted(), IsEmpty());  // it counts until there is another
  const auto next = store().AddAttempt(
      {.study_id = "a", .trial_number = 1, .launcher = "local", .time_ms = 6000});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->number, 2);
  EndAs(*next, Outcome::kOk);
  EXPECT_THAT(Retracted(), ElementsAre("m of a-t1-a1: trial 1 of study a has run again"));
  const auto trial = store().GetTrial("a", 1);
  EXPECT_EQ(trial->outcome, Outcome::kOk);
  EXPECT_EQ(trial->measurement_sequence, 2);
  EXPECT_EQ(trial->device_time, Seconds(20));  // both attempts
}

// The study ended before the trial ran again.
TEST_P(ChangesTest, ATrialThatDidNotRunAgainKeepsItsMeasurement) {
  Ended("a", {Outcome::kOom});
  ASSERT_TRUE(store().ReopenStudy({.study_id = "a"}).ok());
  const AttemptRecord last = store().ListAttempts("a", 1)->back();
  const auto ended = store().FinishTrial({.study_id = "a",
                                          .trial_number = 1,
                                          .attempt = {.attempt_id = last.id,
                                                      .fencing_token = last.fencing_token,
                                                      .outcome = Outcome::kOom,
                                                      .device_time = Seconds(10),
                                                      .log_tail = "said",
                                                      .time_ms = 3000}});
  ASSERT_TRUE(ended.ok()) << ended.status();
  EXPECT_EQ(ended->trial.outcome, Outcome::kOom);
  EXPECT_EQ(ended->trial.measurement_sequence, 1);
  EXPECT_THAT(Retracted(), IsEmpty());
}

struct RefusedRetry {
  std::vector<int> numbers;
  const char* reason;
  const char* says;
};

TEST_P(ChangesTest, TrialsThatCannotRunAgainAreNamed) {
  Insert("a");
  Try("a", "d1", Outcome::kOk);
  Try("a", "d2", Outcome::kCrash);
  TrialIntent repeat = MakeIntent("a", "d1");
  repeat.purpose = TrialPurpose::kConfirm;
  EndAs(store().BeginTrial(repeat)->attempt, Outcome::kCrash);
  Try("a", "d4", std::nullopt);
  EXPECT_EQ(Reason(store().ReopenStudy({.study_id = "a"}).status()), "STUDY_NOT_ENDED");
  ASSERT_TRUE(store().UpdateStudy({.study_id = "a", .state = StudyState::kPaused}).ok());
  const RefusedRetry kCases[] = {
      {{1}, "TRIAL_NOT_FAILED", "trial 1 of study 'a' has ended well (ok)"},
      {{2, 3}, "TRIAL_NOT_FAILED", "trial 3 of study 'a' repeats another trial (confirm)"},
      {{4}, "TRIAL_NOT_FAILED", "trial 4 of study 'a' has not ended"},
      {{2, 9}, "UNKNOWN_TRIAL", "trial 9 of study 'a' does not exist"},
  };
  for (const RefusedRetry& one : kCases) {
    const auto refused = store().ReopenStudy({.study_id = "a", .trial_numbers = one.numbers});
    EXPECT_EQ(Reason(refused.status()), one.reason);
    EXPECT_THAT(std::string(refused.status().message()), HasSubstr(one.says));
  }
  EXPECT_EQ(store().GetStudy("a")->state, StudyState::kPaused);  // all or nothing
  const auto reopened = store().ReopenStudy({.study_id = "a", .trial_numbers = {2}});
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  EXPECT_THAT(reopened->trial_numbers, ElementsAre(2));
  EXPECT_EQ(store().GetTrial("a", 3)->state, TrialState::kEnded);
  Ended("b", {Outcome::kOk});
  EXPECT_EQ(Reason(store().ReopenStudy({.study_id = "b"}).status()), "NO_FAILED_TRIALS");
  EXPECT_EQ(Reason(store().ReopenStudy({.study_id = "b", .edit_count = 1}).status()),
            "STALE_STUDY");
  EXPECT_EQ(store().GetStudy("b")->state, StudyState::kSucceeded);
}

TEST_P(ChangesTest, ARepeatedCallGetsItsFirstAnswer) {
  Ended("a", {});
  const CallKey call = {.request_id = "r1", .method = "DeleteStudy", .request_hash = "h1"};
  int runs = 0;
  const auto work = [&]() -> absl::StatusOr<std::string> {
    ++runs;
    RETURN_IF_ERROR(store().DeleteStudy({.study_id = "a"}).status());
    return "answer " + std::to_string(runs);
  };
  EXPECT_EQ(*store().AnswerOnce(call, work), "answer 1");
  Open();
  EXPECT_EQ(*store().AnswerOnce(call, work), "answer 1");
  EXPECT_EQ(runs, 1);
  for (const CallKey& other : {CallKey{"r1", "DeleteStudy", "h2"}, CallKey{"r1", "Other", "h1"}}) {
    EXPECT_EQ(Reason(store().AnswerOnce(other, work).status()), "REQUEST_ID_REUSED");
  }
  // An error is no answer: the call may be made again.
  EXPECT_EQ(Reason(store().AnswerOnce({"r2", "DeleteStudy", "h1"}, work).status()),
            "UNKNOWN_STUDY");
  EXPECT_EQ(Reason(store().AnswerOnce({"r2", "DeleteStudy", "h1"}, work).status()),
            "UNKNOWN_STUDY");
  EXPECT_EQ(Reason(store().AnswerOnce({std::nullopt, "DeleteStudy", "h1"}, work).status()),
            "UNKNOWN_STUDY");
}

TEST_P(ChangesTest, AnswersAreForgottenAfterTheirDays) {
  const auto answer = [&](const std::string& id, std::int64_t time) {
    return *store().AnswerOnce({.request_id = id, .method = "m", .time_ms = time},
                               [&] { return absl::StatusOr<std::string>(std::to_string(time)); });
  };
  EXPECT_EQ(answer("r1", 0), "0");
  EXPECT_EQ(answer("r2", kAnswerDays * kDay), std::to_string(kAnswerDays * kDay));
  EXPECT_EQ(answer("r1", kDay), "0");
  EXPECT_EQ(answer("r3", kAnswerDays * kDay + 1), std::to_string(kAnswerDays * kDay + 1));
  EXPECT_EQ(answer("r1", 1), "1");  // r3 has deleted it
}

TEST_P(ChangesTest, AuditEventsAreListedByPagesAndFilters) {
  const auto add = [&](std::int64_t time, const std::string& caller, const std::string& method,
                       const std::string& study) {
    const AuditRecord event = {.time_ms = time,
                               .caller = caller,
                               .role = "submitter",
                               .peer = "ipv4:127.0.0.1:7",
                               .protocol = "grpc",
                               .method = method,
                               .study_id = study,
                               .code = "OK"};
    ASSERT_TRUE(store().AppendAuditEvent(event).ok());
  };
  add(10, "ann", "CreateStudy", "a");
  add(20, "bob", "CancelStudy", "a");
  add(30, "ann", "CancelStudy", "b");
  const auto sequences = [&](const AuditFilter& filter) {
    std::vector<std::int64_t> all;
    std::string token;
    do {
      const auto page = store().ListAuditEvents(filter, 1, token);
      EXPECT_TRUE(page.ok()) << page.status();
      for (const AuditRecord& event : page->events) all.push_back(event.sequence);
      token = page->next_page_token;
    } while (!token.empty());
    return all;
  };
  EXPECT_THAT(sequences({}), ElementsAre(3, 2, 1));
  EXPECT_THAT(sequences({.caller = "ann"}), ElementsAre(3, 1));
  EXPECT_THAT(sequences({.method = "CancelStudy"}), ElementsAre(3, 2));
  EXPECT_THAT(sequences({.study_id = "a"}), ElementsAre(2, 1));
  EXPECT_THAT(sequences({.time_from_ms = 20, .time_before_ms = 30}), ElementsAre(2));
  EXPECT_EQ(store().ListAuditEvents({.caller = "bob"}, 0, "")->events.at(0).peer,
            "ipv4:127.0.0.1:7");
  const std::string token = store().ListAuditEvents({}, 1, "")->next_page_token;
  EXPECT_EQ(Reason(store().ListAuditEvents({.caller = "ann"}, 1, token).status()),
            "INVALID_PAGE_TOKEN");

  EXPECT_EQ(*store().DeleteAuditEvents(30), 2);
  EXPECT_EQ(*store().DeleteAuditEvents(30), 0);
  add(40, "ann", "CreateStudy", "c");
  EXPECT_THAT(sequences({}), ElementsAre(4, 3));  // no number is used twice
}

INSTANTIATE_TEST_SUITE_P(All, ChangesTest, testing::ValuesIn(DurablePlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

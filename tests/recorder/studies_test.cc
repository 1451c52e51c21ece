#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "recorder/recorder.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

// Every test runs in memory, and on stores that are closed and reopened before each check.
class StudiesTest : public testing::TestWithParam<StorePlace> {
 protected:
  StudiesTest() { Open(); }

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
  // Returns the journal's events as "kind:payload".
  std::vector<std::string> Journal(const std::string& id) {
    std::vector<std::string> lines;
    const auto events = recorder_->ListEvents(id, 0, 0);
    EXPECT_TRUE(events.ok()) << events.status();
    if (!events.ok()) return lines;
    std::int64_t revision = 0;
    for (const EventRecord& event : *events) {
      EXPECT_EQ(event.revision, ++revision);
      lines.push_back(event.kind + ":" + event.payload);
    }
    return lines;
  }
  void Insert(const std::string& id) { ASSERT_TRUE(recorder_->InsertStudy(MakeStudy(id)).ok()); }

  TestStore store_{GetParam()};
  std::optional<Recorder> recorder_;
};

TEST_P(StudiesTest, KeepsEveryField) {
  StudyRecord study = MakeStudy("a");
  study.state = StudyState::kFailed;
  study.outcome = "failed";
  study.request_id = "r";
  study.request_hash = "h";
  study.result = "";  // present but empty
  study.error_message = "out of luck";
  study.start_time_ms = 1001;
  study.end_time_ms = std::numeric_limits<std::int64_t>::max();
  study.search_time = Seconds(0.1);
  study.best_step_time = Seconds(2.5);
  study.gain_over_baseline = -0.25;
  study.best_plan_digest = "abc";
  const auto inserted = recorder_->InsertStudy(study);
  ASSERT_TRUE(inserted.ok()) << inserted.status();
  EXPECT_TRUE(inserted->is_new);
  study.revision = 1;  // revision of the event of its first state
  EXPECT_EQ(inserted->study, study);
  Reopen();
  EXPECT_EQ(*recorder_->GetStudy("a"), study);
  EXPECT_THAT(Journal("a"), testing::ElementsAre("state:failed"));
}

TEST_P(StudiesTest, KeepsAbsentFieldsAbsent) {
  StudyRecord study = MakeStudy("a");
  Insert("a");
  Reopen();
  study.revision = 1;
  EXPECT_EQ(*recorder_->GetStudy("a"), study);
}

TEST_P(StudiesTest, TakesOneRequestOnce) {
  StudyRecord study = MakeStudy("a");
  study.request_id = "r";
  study.request_hash = "h1";
  ASSERT_TRUE(recorder_->InsertStudy(study).ok());
  Reopen();
  study.id = "b";  // if a client retries, the server creates a new id
  const auto again = recorder_->InsertStudy(study);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_FALSE(again->is_new);
  EXPECT_EQ(again->study.id, "a");
  EXPECT_EQ(again->study.revision, 1);
  study.request_hash = "h2";
  const auto other = recorder_->InsertStudy(study);
  EXPECT_TRUE(absl::IsInvalidArgument(other.status()));
  EXPECT_EQ(Reason(other.status()), "REQUEST_ID_REUSED");
  EXPECT_TRUE(absl::IsNotFound(recorder_->GetStudy("b").status()));
}

TEST_P(StudiesTest, RefusesUsedAndEmptyIds) {
  Insert("a");
  const auto again = recorder_->InsertStudy(MakeStudy("a", 5));
  EXPECT_TRUE(absl::IsAlreadyExists(again.status()));
  EXPECT_EQ(Reason(again.status()), "STUDY_EXISTS");
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->InsertStudy(MakeStudy("")).status()));
  EXPECT_THAT(Journal("a"), testing::SizeIs(1));
}

TEST_P(StudiesTest, NamesUnknownStudies) {
  const std::vector<absl::Status> statuses = {
      recorder_->GetStudy("x").status(),
      recorder_->UpdateStudy({.study_id = "x"}).status(),
      recorder_->FinishStudy({.study_id = "x"}).status(),
      recorder_->AppendEvents(std::vector{MakeEvent("x")}).status(),
      recorder_->ListPlans("x", 0, "").status(),
      recorder_->ListEvents("x", 0, 0).status(),
  };
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(absl::IsNotFound(status)) << status;
    EXPECT_EQ(Reason(status), "UNKNOWN_STUDY");
    EXPECT_EQ(status.message(), "study 'x' does not exist");
  }
}

TEST_P(StudiesTest, RunsIsInterruptedAndRunsAgain) {
  Insert("a");
  const auto update = [this](StudyState state, std::int64_t time_ms,
                             std::optional<std::string> owner = std::nullopt) {
    return recorder_->UpdateStudy(
        {.study_id = "a", .state = state, .time_ms = time_ms, .owner = std::move(owner)});
  };
  const auto running = update(StudyState::kRunning, 1100);
  ASSERT_TRUE(running.ok()) << running.status();
  EXPECT_EQ(running->start_time_ms, 1100);
  ASSERT_TRUE(update(StudyState::kInterrupted, 1200).ok());
  ASSERT_TRUE(update(StudyState::kRunning, 1300, "pid 2").ok());
  Reopen();
  const auto study = recorder_->GetStudy("a");
  EXPECT_EQ(study->state, StudyState::kRunning);
  EXPECT_EQ(study->start_time_ms, 1100);  // the first start
  EXPECT_EQ(study->owner, "pid 2");
  EXPECT_EQ(study->revision, 4);
  EXPECT_THAT(Journal("a"), testing::ElementsAre("state:queued", "state:running",
                                                 "state:interrupted", "state:running"));
}

TEST_P(StudiesTest, FinishesAtOnce) {
  Insert("a");
  const StudyEnding ending = {.study_id = "a",
                              .state = StudyState::kSucceeded,
                              .time_ms = 3000,
                              .outcome = "improved",
                              .result = std::string("r\0", 2),
                              .search_time = Seconds(0.5),
                              .best_step_time = Seconds(2.5),
                              .gain_over_baseline = 0.125,
                              .best_plan_digest = "d1",
                              .plans = std::vector{MakePlan("a", 1), MakePlan("a", 0)},
                              .events = {MakeEvent("a", "100%")}};
  const auto finished = recorder_->FinishStudy(ending);
  ASSERT_TRUE(finished.ok()) << finished.status();
  Reopen();
  EXPECT_EQ(*recorder_->GetStudy("a"), *finished);
  EXPECT_EQ(finished->state, StudyState::kSucceeded);
  EXPECT_EQ(finished->end_time_ms, 3000);
  EXPECT_EQ(finished->outcome, "improved");
  EXPECT_EQ(finished->result, std::string("r\0", 2));
  EXPECT_EQ(finished->search_time, Seconds(0.5));
  EXPECT_EQ(finished->best_step_time, Seconds(2.5));
  EXPECT_EQ(finished->gain_over_baseline, 0.125);
  EXPECT_EQ(finished->best_plan_digest, "d1");
  EXPECT_EQ(finished->revision, 3);
  EXPECT_THAT(Journal("a"),
              testing::ElementsAre("state:queued", "progress:100%", "state:succeeded"));
  EXPECT_THAT(recorder_->ListPlans("a", 0, "")->plans,
              testing::ElementsAre(MakePlan("a", 0), MakePlan("a", 1)));
}

TEST_P(StudiesTest, FinishesWhollyOrNotAtAll) {
  Insert("a");
  StudyEnding ending = {.study_id = "a", .time_ms = 3000, .events = {MakeEvent("a")}};
  ending.plans = {MakePlan("a", 1), MakePlan("a", 1)};  // the same rank twice
  const auto twice = recorder_->FinishStudy(ending);
  EXPECT_TRUE(absl::IsAlreadyExists(twice.status())) << twice.status();
  EXPECT_EQ(Reason(twice.status()), "PLAN_EXISTS");
  ending.plans = {MakePlan("b", 1)};
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->FinishStudy(ending).status()));
  ending.plans = {MakePlan("a", 1)};
  ending.plans.front().step_time = Seconds(std::numeric_limits<double>::quiet_NaN());
  EXPECT_TRUE(absl::IsInvalidArgument(recorder_->FinishStudy(ending).status()));
  Reopen();
  EXPECT_EQ(recorder_->GetStudy("a")->state, StudyState::kQueued);
  EXPECT_THAT(Journal("a"), testing::SizeIs(1));
  EXPECT_THAT(recorder_->ListPlans("a", 0, "")->plans, testing::IsEmpty());
}

// Tests changes from one state to another; the two rules in CheckAlive imply the rest of the
// matrix.
TEST_P(StudiesTest, KeepsTheRulesOfStates) {
  struct Case {
    StudyState from;
    StudyState to;
    std::string_view reason;  // empty if allowed
  };
  constexpr Case kCases[] = {
      {StudyState::kQueued, StudyState::kRunning, ""},
      {StudyState::kQueued, StudyState::kCancelling, ""},
      {StudyState::kQueued, StudyState::kCancelled, ""},
      {StudyState::kInterrupted, StudyState::kQueued, ""},
      {StudyState::kInterrupted, StudyState::kFailed, ""},
      {StudyState::kCancelling, StudyState::kSucceeded, ""},  // it ended before it noticed
      {StudyState::kCancelling, StudyState::kCancelling, ""},
      {StudyState::kCancelling, StudyState::kRunning, "STUDY_CANCELLING"},
      {StudyState::kCancelling, StudyState::kInterrupted, "STUDY_CANCELLING"},
      {StudyState::kSucceeded, StudyState::kRunning, "STUDY_ENDED"},
      {StudyState::kFailed, StudyState::kCancelling, "STUDY_ENDED"},
      {StudyState::kCancelled, StudyState::kSucceeded, "STUDY_ENDED"},
      {StudyState::kSucceeded, StudyState::kSucceeded, "STUDY_ENDED"},
  };
  int number = 0;
  for (const Case& tested : kCases) {
    StudyRecord study = MakeStudy("s" + std::to_string(++number));
    study.state = tested.from;
    ASSERT_TRUE(recorder_->InsertStudy(study).ok());
    const auto after =
        IsTerminal(tested.to)
            ? recorder_->FinishStudy({.study_id = study.id, .state = tested.to, .time_ms = 9})
            : recorder_->UpdateStudy({.study_id = study.id, .state = tested.to, .time_ms = 9});
    const std::string what = study.id + " " + std::string(Word(tested.to));
    EXPECT_EQ(after.ok(), tested.reason.empty()) << what << after.status();
    if (after.ok()) continue;
    EXPECT_TRUE(absl::IsFailedPrecondition(after.status())) << what;
    EXPECT_EQ(Reason(after.status()), tested.reason) << what;
  }
  // Each kind of state has a call of its own.
  EXPECT_TRUE(absl::IsInvalidArgument(
      recorder_->UpdateStudy({.study_id = "s1", .state = StudyState::kFailed}).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(
      recorder_->FinishStudy({.study_id = "s1", .state = StudyState::kRunning}).status()));
  EXPECT_THAT(Journal("s7"), testing::ElementsAre("state:cancelling"));  // no second event
}

TEST_P(StudiesTest, KeepsWhatPeopleSay) {
  Insert("a");
  const auto edited = recorder_->EditStudy({.study_id = "a",
                                            .display_name = "first try",
                                            .note = "one\ntwo",
                                            .labels = {{"team", "llm"}, {"run", "7"}}});
  ASSERT_TRUE(edited.ok()) << edited.status();
  Reopen();
  EXPECT_EQ(recorder_->GetStudy("a")->remarks,
            (StudyRemarks{.display_name = "first try",
                          .note = "one\ntwo",
                          .labels = {{"run", "7"}, {"team", "llm"}},
                          .edit_count = 1}));
  EXPECT_THAT(Journal("a"), testing::ElementsAre("state:queued"));  // nothing that it did
  // Fields that an edit does not name stay, and a label is set, changed or removed.
  ASSERT_TRUE(recorder_
                  ->EditStudy({.study_id = "a",
                               .note = "",
                               .labels = {{"team", "vision"}},
                               .removed_labels = {"run", "absent"},
                               .edit_count = 1})
                  .ok());
  EXPECT_EQ(
      recorder_->GetStudy("a")->remarks,
      (StudyRemarks{.display_name = "first try", .labels = {{"team", "vision"}}, .edit_count = 2}));
}

TEST_P(StudiesTest, RefusesStaleAndTooManyRemarks) {
  Insert("a");
  ASSERT_TRUE(recorder_->EditStudy({.study_id = "a", .note = "mine"}).ok());
  const auto stale = recorder_->EditStudy({.study_id = "a", .note = "yours", .edit_count = 0});
  EXPECT_TRUE(absl::IsAborted(stale.status())) << stale.status();
  EXPECT_EQ(Reason(stale.status()), "STALE_STUDY");
  StudyEdit many = {.study_id = "a", .note = "lost"};
  for (int i = 0; i <= 64; ++i) many.labels["k" + std::to_string(i)] = "";
  EXPECT_EQ(Reason(recorder_->EditStudy(many).status()), "TOO_MANY_LABELS");
  EXPECT_EQ(recorder_->GetStudy("a")->remarks.note, "mine");
  EXPECT_TRUE(absl::IsNotFound(recorder_->EditStudy({.study_id = "none"}).status()));
}

TEST_P(StudiesTest, ListsByChipTimeAndLabels) {
  for (int i = 0; i < 4; ++i) {
    StudyRecord study = MakeStudy("s" + std::to_string(i));
    study.chip = i % 2 == 0 ? "even" : "odd";
    if (i == 0) study.other_chips = {"odd-1", "third", "even-1"};
    if (i >= 2) study.creator = "ci";
    study.create_time_ms = 1000 + i;
    ASSERT_TRUE(recorder_->InsertStudy(study).ok());
    ASSERT_TRUE(recorder_
                    ->EditStudy({.study_id = study.id,
                                 .display_name = i == 3 ? "The Best" : "",
                                 .labels = {{"all", "x"}, {"low", i < 2 ? "yes" : "no"}}})
                    .ok());
  }
  const auto ids = [&](const StudyFilter& filter) {
    std::vector<std::string> found;
    std::string token;
    do {  // one a page, so that tokens are tried too
      const auto page = recorder_->ListStudies(1, token, filter);
      EXPECT_TRUE(page.ok()) << page.status();
      for (const StudyRecord& study : page->studies) found.push_back(study.id);
      token = page->next_page_token;
    } while (!token.empty());
    return found;
  };
  using testing::ElementsAre;
  EXPECT_THAT(ids({.chip = "odd"}), ElementsAre("s3", "s1"));
  EXPECT_THAT(ids({.chip = "third"}), ElementsAre("s0"));
  EXPECT_THAT(ids({.chip = "odd-1"}), ElementsAre("s0"));
  EXPECT_THAT(ids({.creator = "ci"}), ElementsAre("s3", "s2"));
  EXPECT_THAT(ids({.creator = ""}), ElementsAre("s1", "s0"));
  EXPECT_THAT(ids({.creator = "c"}), testing::IsEmpty());
  EXPECT_THAT(ids({.text = "best"}), ElementsAre("s3"));
  EXPECT_THAT(ids({.create_time_from_ms = 1001, .create_time_before_ms = 1003}),
              ElementsAre("s2", "s1"));
  EXPECT_THAT(ids({.labels = {{"all", "x"}, {"low", "yes"}}}), ElementsAre("s1", "s0"));
  EXPECT_THAT(ids({.chip = "even", .labels = {{"low", "no"}}}), ElementsAre("s2"));
  EXPECT_THAT(ids({.labels = {{"low", "maybe"}}}), testing::IsEmpty());
  const auto page = recorder_->ListStudies(1, "", {.chip = "odd"});
  EXPECT_FALSE(recorder_->ListStudies(1, page->next_page_token, {.chip = "even"}).ok());
  EXPECT_FALSE(
      recorder_->ListStudies(1, page->next_page_token, {.chip = "odd", .creator = ""}).ok());
}

TEST_P(StudiesTest, AppendsAllOrNone) {
  Insert("a");
  Insert("b");
  const auto revisions = recorder_->AppendEvents(
      std::vector{MakeEvent("a", "1"), MakeEvent("b", "1"), MakeEvent("a", "2")});
  ASSERT_TRUE(revisions.ok()) << revisions.status();
  EXPECT_THAT(*revisions, testing::ElementsAre(2, 2, 3));  // 1 is the state's event in both studies
  EXPECT_FALSE(recorder_->AppendEvents(std::vector{MakeEvent("a", "3"), MakeEvent("x")}).ok());
  Reopen();
  EXPECT_THAT(Journal("a"), testing::ElementsAre("state:queued", "progress:1", "progress:2"));
  EXPECT_THAT(*recorder_->AppendEvents({}), testing::IsEmpty());
}

TEST_P(StudiesTest, InterruptsOrphans) {
  struct Case {
    StudyState before;
    std::string_view owner;
    StudyState after;
  };
  constexpr Case kCases[] = {
      {StudyState::kQueued, "dead", StudyState::kInterrupted},
      {StudyState::kRunning, "dead", StudyState::kInterrupted},
      {StudyState::kCancelling, "dead", StudyState::kCancelled},
      {StudyState::kInterrupted, "dead", StudyState::kInterrupted},
      {StudyState::kSucceeded, "dead", StudyState::kSucceeded},
      {StudyState::kQueued, "alive", StudyState::kQueued},
      {StudyState::kRunning, "alive", StudyState::kRunning},
      {StudyState::kCancelling, "alive", StudyState::kCancelling},
  };
  for (std::size_t i = 0; i < std::size(kCases); ++i) {
    StudyRecord study = MakeStudy("s" + std::to_string(i));
    study.state = kCases[i].before;
    study.owner = kCases[i].owner;
    ASSERT_TRUE(recorder_->InsertStudy(study).ok());
  }
  const auto is_alive = [](std::string_view owner) { return owner == "alive"; };
  const auto orphans = recorder_->InterruptOrphans(is_alive, 7000);
  ASSERT_TRUE(orphans.ok()) << orphans.status();
  Reopen();
  std::set<std::string> returned;
  for (const StudyRecord& study : *orphans) {
    returned.insert(study.id);
    EXPECT_EQ(study, *recorder_->GetStudy(study.id));
    EXPECT_EQ(study.revision, 2);
    EXPECT_EQ(study.end_time_ms.has_value(), IsTerminal(study.state));
    EXPECT_THAT(Journal(study.id).back(), "state:" + std::string(Word(study.state)));
  }
  EXPECT_THAT(returned, testing::ElementsAre("s0", "s1", "s2"));
  for (std::size_t i = 0; i < std::size(kCases); ++i) {
    EXPECT_EQ(recorder_->GetStudy("s" + std::to_string(i))->state, kCases[i].after) << i;
  }
  EXPECT_EQ(recorder_->GetStudy("s2")->outcome, "cancelled");
  EXPECT_THAT(*recorder_->InterruptOrphans(is_alive, 8000), testing::IsEmpty());
}

TEST_P(StudiesTest, RequeuesInterruptedStudies) {
  for (int i = 0; i < 4; ++i) {
    StudyRecord study = MakeStudy("s" + std::to_string(i));
    study.create_time_ms = 1000 - i;  // s3 is the oldest
    study.question = "question " + study.id;
    study.owner = "dead";
    ASSERT_TRUE(recorder_->InsertStudy(study).ok());
  }
  ASSERT_TRUE(recorder_->FinishStudy({.study_id = "s0", .time_ms = 1}).ok());
  // The one that was interrupted twice says so.
  const auto interrupt = [this] {
    ASSERT_TRUE(recorder_->InterruptOrphans([](std::string_view) { return false; }, 7000).ok());
  };
  interrupt();
  ASSERT_TRUE(recorder_->RequeueStudies(std::vector<std::string>{"s2"}, "next", 7001).ok());
  interrupt();
  Reopen();
  const auto interrupted = recorder_->ListInterrupted();
  ASSERT_TRUE(interrupted.ok()) << interrupted.status();
  ASSERT_EQ(interrupted->size(), 3U);
  std::vector<std::string> ids;
  for (const InterruptedStudy& study : *interrupted) {
    ids.push_back(study.id);
    EXPECT_EQ(study.question, "question " + study.id);
    EXPECT_EQ(study.interruption_count, study.id == "s2" ? 2 : 1) << study.id;
  }
  EXPECT_THAT(ids, testing::ElementsAre("s3", "s2", "s1"));

  ASSERT_TRUE(recorder_->RequeueStudies(ids, "next", 7002).ok());
  Reopen();
  for (const std::string& id : ids) {
    const auto study = recorder_->GetStudy(id);
    EXPECT_EQ(study->state, StudyState::kQueued);
    EXPECT_EQ(study->owner, "next");
  }
  EXPECT_THAT(Journal("s2"),
              testing::ElementsAre("state:queued", "state:interrupted", "state:queued",
                                   "state:interrupted", "state:queued"));
  EXPECT_THAT(*recorder_->ListInterrupted(), testing::IsEmpty());
  EXPECT_TRUE(recorder_->RequeueStudies({}, "next", 7003).ok());
}

INSTANTIATE_TEST_SUITE_P(All, StudiesTest, testing::ValuesIn(AllPlaces()),
                         [](const auto& tested) { return NameOf(tested.param); });

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

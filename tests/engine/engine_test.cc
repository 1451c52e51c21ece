#include "server/engine/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <string>
#include <thread>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/engine/history_queries.h"
#include "server/tuner/answers/run_study.h"
#include "server/tuner/question/study_request.h"
#include "tests/engine/engine_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AnyOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

std::vector<std::int64_t> Revisions(const std::vector<EventRecord>& events) {
  std::vector<std::int64_t> revisions;
  for (const EventRecord& event : events) revisions.push_back(event.revision);
  return revisions;
}

TEST_F(EngineTest, RunsAStudyToItsEnd) {
  Engine& engine = StartEngine();
  const std::string id = Create(SmallStudy());
  EXPECT_THAT(id, testing::MatchesRegex("study-[0-9a-f]{12}"));
  const StudyRecord study = Ended(id);

  EXPECT_EQ(study.state, StudyState::kSucceeded) << study.error_message;
  EXPECT_THAT(study.outcome, AnyOf("improved", "baseline_best"));
  EXPECT_EQ(study.device_count, 8);
  EXPECT_EQ(study.chip, "nvidia-a100-sxm4-80gb");
  EXPECT_EQ(study.result, "result");
  EXPECT_TRUE(study.search_time.has_value());
  ASSERT_TRUE(study.best_step_time.has_value());
  const auto plans = engine.queries().ListPlans(id, 0, "");
  ASSERT_TRUE(plans.ok());
  ASSERT_EQ(plans->plans.size(), 6U);  // the baseline and five
  EXPECT_EQ(plans->plans[1].rank, 1);
  EXPECT_EQ(plans->plans[1].step_time, *study.best_step_time);
  EXPECT_EQ(plans->plans[1].plan_digest, study.best_plan_digest);
}

TEST_F(EngineTest, JournalsEachStep) {
  Engine& engine = StartEngine();
  const std::string id = Create(SmallStudy());
  EventLog log;
  ASSERT_TRUE(engine.Subscribe(id, 0, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForEnd());
  EXPECT_THAT(log.States(), ElementsAre("queued", "running", "succeeded"));
}

TEST_F(EngineTest, ReplaysFromAnyRevisionWithoutGapOrRepeat) {
  Engine& engine = StartEngine();
  const std::string id = Create(EndlessStudy());
  EventLog from_start;
  EventLog from_second;
  ASSERT_TRUE(engine.Subscribe(id, 0, from_start.Sink()).ok());
  ASSERT_TRUE(from_start.WaitForState("running"));
  ASSERT_TRUE(engine.Subscribe(id, 1, from_second.Sink()).ok());
  ASSERT_TRUE(engine.CancelStudy(id).ok());
  ASSERT_TRUE(from_start.WaitForEnd());
  ASSERT_TRUE(from_second.WaitForEnd());

  std::vector<std::int64_t> expected;
  const std::int64_t last = engine.queries().GetStudy(id)->revision;
  for (std::int64_t r = 1; r <= last; ++r) expected.push_back(r);
  EXPECT_EQ(Revisions(from_start.Events()), expected);
  expected.erase(expected.begin());
  EXPECT_EQ(Revisions(from_second.Events()), expected);

  EventLog after_end;
  ASSERT_TRUE(engine.Subscribe(id, last, after_end.Sink()).ok());
  ASSERT_TRUE(after_end.WaitForEnd());
  EXPECT_TRUE(after_end.Events().empty());
}

TEST_F(EngineTest, TheSameRequestIdMakesOneStudy) {
  Engine& engine = StartEngine();
  const CreateStudyOptions options = {.request_id = "r-1"};
  const auto first = engine.CreateStudy(ResolvedBy(SmallStudy()), options);
  const auto second = engine.CreateStudy(ResolvedBy(SmallStudy()), options);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(first->id, second->id);
  EXPECT_EQ(engine.queries().ListStudies(0, "")->studies.size(), 1U);

  StudyRequest other = SmallStudy();
  other.plan_count = 3;
  EXPECT_EQ(Reason(engine.CreateStudy(ResolvedBy(other), options).status()), "REQUEST_ID_REUSED");
  const CreateStudyOptions named = {.study_id = "mine", .request_id = "r-1"};
  EXPECT_EQ(Reason(engine.CreateStudy(ResolvedBy(SmallStudy()), named).status()),
            "REQUEST_ID_REUSED");
}

TEST_F(EngineTest, TakesTheClientsId) {
  Engine& engine = StartEngine();
  ASSERT_TRUE(engine.CreateStudy(ResolvedBy(SmallStudy()), {.study_id = "llama-on-a100"}).ok());
  EXPECT_TRUE(engine.queries().GetStudy("llama-on-a100").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(
      engine.CreateStudy(ResolvedBy(SmallStudy()), {.study_id = "llama-on-a100"}).status()));
  for (const std::string& bad : {std::string(), std::string("ab"), std::string("1abc"),
                                 std::string("Abc"), std::string("a_bc"), std::string(64, 'a')}) {
    const auto study = engine.CreateStudy(ResolvedBy(SmallStudy()), {.study_id = bad});
    ASSERT_EQ(FieldViolations(study.status()).size(), 1U) << bad;
    EXPECT_EQ(FieldViolations(study.status())[0].field, "study_id");
  }
}

TEST_F(EngineTest, CancelsARunningAndAQueuedStudy) {
  Engine& engine = StartEngine();
  const std::string running = Create(EndlessStudy());
  const std::string queued = Create(SmallStudy());
  EventLog log;
  ASSERT_TRUE(engine.Subscribe(running, 0, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForState("running"));

  EXPECT_EQ(engine.CancelStudy(queued)->state, StudyState::kCancelled);
  EXPECT_THAT(engine.CancelStudy(running)->state,
              AnyOf(StudyState::kCancelling, StudyState::kCancelled));
  EXPECT_TRUE(engine.CancelStudy(running).ok());  // pressed twice
  ASSERT_TRUE(log.WaitForEnd());
  EXPECT_THAT(log.States(), ElementsAre("queued", "running", "cancelling", "cancelled"));
  EXPECT_EQ(engine.queries().GetStudy(running)->outcome, "cancelled");
  EXPECT_EQ(engine.CancelStudy(running)->state, StudyState::kCancelled);
  EXPECT_TRUE(absl::IsNotFound(engine.CancelStudy("study-none").status()));
}

TEST_F(EngineTest, PausesAndResumesARunningStudy) {
  Engine& engine = StartEngine();
  const std::string id = Create(EndlessStudy());
  EventLog log;
  ASSERT_TRUE(engine.Subscribe(id, 0, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForState("running"));
  ASSERT_TRUE(engine.PauseStudy(id).ok());
  ASSERT_TRUE(log.WaitForState("paused"));
  EXPECT_EQ(engine.PauseStudy(id)->state, StudyState::kPaused);  // pressed twice
  EXPECT_EQ(engine.ResumeStudy(id)->state, StudyState::kQueued);
  EXPECT_THAT(engine.ResumeStudy(id)->state, AnyOf(StudyState::kQueued, StudyState::kRunning));
  ASSERT_TRUE(engine.CancelStudy(id).ok());
  ASSERT_TRUE(log.WaitForEnd());
  const std::vector<std::string> states = log.States();
  ASSERT_GE(states.size(), 5U);
  EXPECT_THAT(std::vector(states.begin(), states.begin() + 4),
              ElementsAre("queued", "running", "paused", "queued"));
  EXPECT_EQ(states.back(), "cancelled");
  EXPECT_EQ(Reason(engine.PauseStudy(id).status()), "STUDY_ENDED");
  EXPECT_EQ(Reason(engine.ResumeStudy(id).status()), "STUDY_ENDED");
  EXPECT_TRUE(absl::IsNotFound(engine.PauseStudy("study-none").status()));
  EXPECT_TRUE(absl::IsNotFound(engine.ResumeStudy("study-none").status()));
}

TEST_F(EngineTest, DeletesOnlyAStudyThatHasEnded) {
  Engine& engine = StartEngine();
  const std::string id = Create(EndlessStudy());
  EventLog log;
  ASSERT_TRUE(engine.Subscribe(id, 0, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForState("running"));
  const auto count = [](const DeletedStudy& deleted) {
    return std::to_string(deleted.trial_count);
  };
  EXPECT_EQ(Reason(engine.DeleteStudy({.study_id = id}, {}, count).status()), "STUDY_NOT_ENDED");
  ASSERT_TRUE(engine.CancelStudy(id).ok());
  ASSERT_TRUE(log.WaitForEnd());
  const CallKey call = {.request_id = "gone", .method = "DeleteStudy"};
  EXPECT_EQ(engine.DeleteStudy({.study_id = id}, call, count).value(), "0");
  EXPECT_EQ(engine.DeleteStudy({.study_id = id}, call, count).value(), "0");
  EXPECT_TRUE(absl::IsNotFound(engine.DeleteStudy({.study_id = id}, {}, count).status()));
  EXPECT_TRUE(absl::IsNotFound(engine.queries().GetStudy(id).status()));
  EXPECT_EQ(Reason(engine.CreateStudy(ResolvedBy(SmallStudy()), {.study_id = id}).status()),
            "STUDY_DELETED");
}

// A pause that is taken back at once leaves the study in the queue, whether it had stopped or not.
TEST_F(EngineTest, APauseThatIsTakenBackAtOnceLosesNothing) {
  Engine& engine = StartEngine();
  const std::string id = Create(EndlessStudy());
  EventLog log;
  ASSERT_TRUE(engine.Subscribe(id, 0, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForState("running"));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(engine.PauseStudy(id).ok());
    ASSERT_TRUE(engine.ResumeStudy(id).ok());
  }
  const std::int64_t revision = engine.queries().GetStudy(id)->revision;
  const std::string other = Create(SmallStudy());
  ASSERT_TRUE(engine.CancelStudy(id).ok());
  ASSERT_TRUE(log.WaitForEnd());
  EXPECT_EQ(log.States().back(), "cancelled");
  EXPECT_GE(engine.queries().GetStudy(id)->revision, revision);
  EXPECT_EQ(Ended(other).state, StudyState::kSucceeded);
}

// It waits for its user, not for a server.
TEST_F(EngineTest, APausedStudyStaysPausedOverARestart) {
  Engine& first = StartEngine();
  const std::string running = Create(EndlessStudy());
  const std::string waiting = Create(SmallStudy());
  EXPECT_EQ(first.PauseStudy(waiting)->state, StudyState::kPaused);
  EventLog log;
  ASSERT_TRUE(first.Subscribe(running, 0, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForState("running"));
  ASSERT_TRUE(first.PauseStudy(running).ok());
  ASSERT_TRUE(log.WaitForState("paused"));
  const std::string next = Create(SmallStudy());  // the engine goes on without them
  EXPECT_EQ(Ended(next).state, StudyState::kSucceeded);
  StopEngine();

  Engine& second = StartEngine();
  const std::string after = Create(SmallStudy());
  EXPECT_EQ(Ended(after).state, StudyState::kSucceeded);
  EXPECT_EQ(second.queries().GetStudy(waiting)->state, StudyState::kPaused);
  EXPECT_EQ(second.CancelStudy(running)->state, StudyState::kCancelled);
  ASSERT_TRUE(second.ResumeStudy(waiting).ok());
  EXPECT_EQ(Ended(waiting).state, StudyState::kSucceeded);
}

TEST_F(EngineTest, AnOrderlyStopLeavesAStudyToBeResumed) {
  StartEngine();
  const std::string id = Create(EndlessStudy());
  const std::string waiting = Create(SmallStudy());
  // This is more often than a study may crash its process, but an orderly stop does not count.
  for (int stop = 0; stop < 4; ++stop) {
    StopEngine();
    const std::int64_t last_revision = OpenStore().GetStudy(id)->revision;
    Engine& engine = StartEngine();
    EventLog log;
    ASSERT_TRUE(engine.Subscribe(id, last_revision, log.Sink()).ok());
    ASSERT_TRUE(log.WaitForState("running"));
    StopEngine();
    EXPECT_EQ(OpenStore().GetStudy(id)->state, StudyState::kInterrupted);
    EXPECT_TRUE(log.WaitForEnd());
  }
  Engine& engine = StartEngine();
  ASSERT_TRUE(engine.CancelStudy(id).ok());
  EXPECT_EQ(Ended(id).state, StudyState::kCancelled);
  EXPECT_EQ(Ended(waiting).state, StudyState::kSucceeded);
}

// The studies that a process left behind when it ended.
struct OrphanCase {
  std::string name;
  std::vector<StudyState> states;  // after queued
  StudyState expected;
};

class OrphanTest : public EngineTest, public testing::WithParamInterface<OrphanCase> {};

TEST_P(OrphanTest, ReachesAnEnd) {
  {
    Recorder store = OpenStore();
    ASSERT_TRUE(store
                    .InsertStudy({.id = "orphan",
                                  .question = "small 5",
                                  .owner = "999999999:1",
                                  .create_time_ms = 1})
                    .ok());
    for (const StudyState state : GetParam().states) {
      ASSERT_TRUE(store.UpdateStudy({.study_id = "orphan", .state = state, .time_ms = 2}).ok());
    }
  }
  StartEngine();
  EXPECT_EQ(Ended("orphan").state, GetParam().expected);
}

using enum StudyState;
const OrphanCase kOrphans[] = {
    {"queued", {}, kSucceeded},
    {"running", {kRunning}, kSucceeded},
    {"cancelling", {kRunning, kCancelling}, kCancelled},
    {"lost_twice", {kRunning, kInterrupted, kQueued, kRunning}, kSucceeded},
    {"lost_three_times",
     {kRunning, kInterrupted, kQueued, kRunning, kInterrupted, kQueued, kRunning},
     kFailed},
    {"waited_behind_the_culprit",
     {kInterrupted, kQueued, kInterrupted, kQueued, kInterrupted, kQueued},
     kSucceeded},
};
INSTANTIATE_TEST_SUITE_P(All, OrphanTest, testing::ValuesIn(kOrphans),
                         [](const auto& c) { return c.param.name; });

TEST_F(EngineTest, AStoredRequestThatCannotBeReadFails) {
  ASSERT_TRUE(OpenStore().InsertStudy({.id = "odd", .question = "?", .owner = "999999999:1"}).ok());
  StartEngine();
  const StudyRecord study = Ended("odd");
  EXPECT_EQ(study.state, StudyState::kFailed);
  EXPECT_EQ(study.outcome, "failed");
  EXPECT_THAT(study.error_message, HasSubstr("not a request"));
}

TEST_F(EngineTest, AStudyThatThrowsFailsAndTheNextOneRuns) {
  StartEngine();
  StudyRequest throwing = SmallStudy();
  throwing.question.cluster.name = "throwing";
  const std::string id = Create(throwing);
  const std::string next = Create(SmallStudy());
  EXPECT_EQ(Ended(id).state, StudyState::kFailed);
  EXPECT_EQ(Ended(next).state, StudyState::kSucceeded);
}

// Progress comes every 200 ms, after 20 s every hundredth of the study's age, and what was held
// back comes at the end.
TEST_F(EngineTest, ThinsProgress) {
  // These are the milliseconds since the study began.
  constexpr std::int64_t kReported[] = {0,   199,     200,     399,     401,    600,
                                        601, 100'000, 100'999, 101'020, 101'500};
  std::chrono::steady_clock::time_point now;
  const auto begin = now;
  const auto run = [&](const ResolvedStudy&, const Knowledge&,
                       const StudyControl& control) -> absl::StatusOr<StudyAnswer> {
    for (const std::int64_t time : kReported) {
      now = begin + std::chrono::milliseconds(time);
      control.on_progress({.phase = "search", .considered_count = time});
    }
    return absl::InternalError("the study broke off");
  };
  Engine& engine = StartEngine(TestCodec(), {.run = run, .now = [&now] { return now; }});
  const std::string id = Create(SmallStudy());
  EventLog log;
  ASSERT_TRUE(engine.Subscribe(id, 0, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForEnd());
  std::vector<std::string> kept;
  for (const EventRecord& event : log.Events()) {
    if (event.kind == "progress") kept.push_back(event.payload);
  }
  // 199, 399 and 600 come 1 ms before an interval has passed; 100,999 comes 999 ms after the last,
  // when a hundredth of the age is 1,009.
  EXPECT_THAT(kept, ElementsAre("0", "200", "401", "601", "100000", "101020", "101500"));
}

TEST_F(EngineTest, KeepsAStudyThatRanOutside) {
  Engine& engine = StartEngine();
  const auto answer = RunStudy(ResolvedBy(SmallStudy()), SharedKnowledge(), {});
  ASSERT_TRUE(answer.ok()) << answer.status();
  const auto study = engine.RecordStudy(ResolvedBy(SmallStudy()), answer, {.start_time_ms = 1000});
  ASSERT_TRUE(study.ok()) << study.status();
  EXPECT_EQ(study->state, StudyState::kSucceeded);
  EXPECT_EQ(study->start_time_ms, 1000);
  EXPECT_THAT(study->best_plan_digest, Not(""));
  EXPECT_EQ(engine.queries().ListStudies(0, "")->studies.size(), 1U);
}

// An import, or any other writer, does not delay readers.
TEST_F(EngineTest, AnswersFromTheStoreWhileItIsWrittenTo) {
  Engine& engine = StartEngine();
  const std::string id = Create(SmallStudy());
  Ended(id);
  std::latch has_begun(1);
  std::latch may_end(1);
  std::jthread writer([&] {
    EXPECT_TRUE(engine.store()
                    .write([&](Recorder&) {
                      has_begun.count_down();
                      may_end.wait();
                      return absl::OkStatus();
                    })
                    .ok());
  });
  has_begun.wait();
  EXPECT_EQ(engine.queries().ListStudies(0, "")->studies.size(), 1U);
  EXPECT_EQ(engine.queries().GetStudy(id)->state, StudyState::kSucceeded);
  EXPECT_FALSE(engine.queries().ListPlans(id, 0, "")->plans.empty());
  const auto events = ReadFrom(
      engine.store(), [&](const Recorder& recorder) { return recorder.ListEvents(id, 0, 0); });
  EXPECT_FALSE(events->empty());
  EXPECT_TRUE(engine.queries().ListMeasurements({}, MeasurementOrder::kNewest, 0, "").ok());
  EventLog log;
  EXPECT_TRUE(engine.Subscribe(id, 0, log.Sink()).ok());
  EXPECT_TRUE(log.WaitForEnd());
  const auto history = engine.History(std::nullopt);
  ASSERT_TRUE(history.ok()) << history.status();
  const Problem problem = ResolveProblem(SmallStudy().question, SharedKnowledge()).value();
  EXPECT_TRUE(history->read(problem).ok());
  may_end.count_down();
}

TEST_F(EngineTest, NothingOfAnUnknownStudy) {
  Engine& engine = StartEngine();
  EXPECT_TRUE(absl::IsNotFound(engine.queries().GetStudy("study-none").status()));
  EXPECT_TRUE(absl::IsNotFound(engine.queries().ListPlans("study-none", 0, "").status()));
  EventLog log;
  EXPECT_TRUE(absl::IsNotFound(engine.Subscribe("study-none", 0, log.Sink()).status()));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

// Two engines on one store on PostgreSQL, as two servers have them.
#include "server/engine/sharing.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/engine/engine.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/study_request.h"
#include "tests/engine/engine_fixture.h"
#include "tests/events/wait_for.h"
#include "tests/recorder/temporary_store.h"
#include "tests/stores/test_store.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::AnyOf;
using testing::Contains;
using testing::ElementsAre;
using testing::IsEmpty;
using testing::Not;

class SharingTest : public testing::Test {
 protected:
  void SetUp() override {
    if (DurablePlaces().size() == 1) GTEST_SKIP() << "cmake -DMESHWRIGHT_TEST_POSTGRES=OFF";
    store_.emplace(StorePlace::kPostgres);
  }
  void TearDown() override { engines_.clear(); }

  // Starts an engine whose leases are long, so that no slow machine lets one expire.
  Engine& Start(StudyCodec codec = TestCodec(),
                std::chrono::milliseconds lease = std::chrono::minutes(10)) {
    auto recorder = Recorder::Open({.path = store_->address(), .runs_studies = true});
    EXPECT_TRUE(recorder.ok()) << recorder.status();
    EngineHooks hooks = {.run = HeldUp, .study_lease = lease};
    hooks.on_error = [this](std::string_view, const absl::Status& status) {
      if (Reason(status) == "STALE_LEASE") ++stale_count_;
    };
    auto engine =
        Engine::Start(*std::move(recorder), SharedKnowledge(), std::move(codec), std::move(hooks));
    EXPECT_TRUE(engine.ok()) << engine.status();
    engines_.push_back(*std::move(engine));
    return *engines_.back();
  }
  // Starts two engines, each with a study that does not end by itself.
  void StartBusyPair() {
    for (int i = 0; i < 2; ++i) {
      Engine& engine = Start();
      names_[i] = Create(engine, EndlessStudy());
      EventLog& log = NewLog();
      const auto subscription = engine.Subscribe(names_[i], 0, log.Sink());
      EXPECT_TRUE(log.WaitForProgress(1));
      engine.Unsubscribe(*subscription);
    }
  }
  // The engine that runs the first study, and the other one. Both are busy.
  Engine& a() { return *engines_[0]; }
  Engine& b() { return *engines_[1]; }

  static std::string Create(Engine& engine, const StudyRequest& request) {
    const auto study = engine.CreateStudy(ResolvedBy(request), {});
    EXPECT_TRUE(study.ok()) << study.status();
    return study.ok() ? study->id : "";
  }
  static StudyState StateAt(const Engine& engine, const std::string& id) {
    const auto study = engine.queries().GetStudy(id);
    EXPECT_TRUE(study.ok()) << study.status();
    return study.ok() ? study->state : StudyState::kFailed;
  }
  std::string EndAt(Engine& engine, const std::string& id) {
    EventLog& log = NewLog();
    EXPECT_TRUE(engine.Subscribe(id, 0, log.Sink()).ok());
    EXPECT_TRUE(log.WaitForEnd());
    return log.States().empty() ? "" : log.States().back();
  }
  // Lets another server, of which there is none, take a study over.
  void TakeAway(const std::string& id) const {
    store_->Sql(
        fmt::format("BEGIN; SELECT pg_advisory_xact_lock((1297568596::bigint << 32) | "
                    "current_schema()::regnamespace::oid::bigint);"
                    "UPDATE studies SET lease_token = lease_token + 1, lease_expires_ms = 9e18 "
                    "WHERE id = '{}'; COMMIT",
                    id));
  }

  // A log that outlives the engines, which may still write to it.
  EventLog& NewLog() { return logs_.emplace_back(); }

  std::optional<TestStore> store_;
  std::deque<EventLog> logs_;
  std::atomic<int> stale_count_ = 0;
  std::string names_[2];
  std::vector<std::unique_ptr<Engine>> engines_;
};

// Watchers at both get every revision, from any revision on.
TEST_F(SharingTest, AStudyIsWatchedAndCancelledAtTheOtherServer) {
  StartBusyPair();
  EventLog& here = NewLog();
  EventLog& there = NewLog();
  ASSERT_TRUE(a().Subscribe(names_[0], 0, here.Sink()).ok());
  ASSERT_TRUE(b().Subscribe(names_[0], 0, there.Sink()).ok());
  ASSERT_TRUE(there.WaitForProgress(3));
  const std::int64_t middle = there.Events().back().revision;
  EXPECT_EQ(b().CancelStudy(names_[0])->state, StudyState::kCancelling);
  ASSERT_TRUE(here.WaitForEnd());
  ASSERT_TRUE(there.WaitForEnd());
  EXPECT_EQ(there.Events(), here.Events());
  EXPECT_THAT(there.States(), ElementsAre("queued", "running", "cancelling", "cancelled"));
  std::int64_t revision = 0;
  for (const EventRecord& event : there.Events()) EXPECT_EQ(event.revision, ++revision);
  EXPECT_EQ(b().CancelStudy(names_[0])->state, StudyState::kCancelled);

  EventLog& rest = NewLog();  // the reader moves from one server to the other
  ASSERT_TRUE(a().Subscribe(names_[0], middle, rest.Sink()).ok());
  ASSERT_TRUE(rest.WaitForEnd());
  std::vector<EventRecord> expected = there.Events();
  std::erase_if(expected, [middle](const EventRecord& event) { return event.revision <= middle; });
  EXPECT_EQ(rest.Events(), expected);
}

TEST_F(SharingTest, AStudyIsPausedAndResumedAtTheOtherServer) {
  StartBusyPair();
  EventLog& log = NewLog();
  ASSERT_TRUE(b().Subscribe(names_[0], 0, log.Sink()).ok());
  ASSERT_TRUE(b().PauseStudy(names_[0]).ok());
  ASSERT_TRUE(log.WaitForState("paused"));
  EXPECT_EQ(a().PauseStudy(names_[0])->state, StudyState::kPaused);
  EXPECT_EQ(b().ResumeStudy(names_[0])->state, StudyState::kQueued);
  EXPECT_THAT(a().ResumeStudy(names_[0])->state, AnyOf(StudyState::kQueued, StudyState::kRunning));
  ASSERT_TRUE(b().CancelStudy(names_[0]).ok());
  ASSERT_TRUE(log.WaitForEnd());
  EXPECT_EQ(StateAt(a(), names_[0]), StudyState::kCancelled);
}

// One whose server is busy is run by one that is not.
TEST_F(SharingTest, AServerThatIsFreeRunsWhatOthersCreated) {
  StartBusyPair();
  const std::string waiting = Create(a(), SmallStudy());
  EXPECT_EQ(StateAt(b(), waiting), StudyState::kQueued);
  Engine& third = Start();
  EXPECT_EQ(EndAt(a(), waiting), "succeeded");
  EXPECT_THAT(third.load().searches.running, 0);
  const std::string paused = Create(a(), SmallStudy());
  EXPECT_EQ(EndAt(third, paused), "succeeded");
}

// A server without --allow-jobs takes no study with jobs.
TEST_F(SharingTest, AServerThatMayNotRunJobsLeavesThemToOthers) {
  StartBusyPair();
  StudyCodec jobs = TestCodec();
  jobs.read_launcher = [](std::string_view) { return "local"; };
  Engine& third = Start(jobs);
  const std::string waiting = Create(a(), SmallStudy());
  const std::int64_t revision = third.queries().GetStudy(names_[0])->revision;
  EventLog& log = NewLog();
  ASSERT_TRUE(third.Subscribe(names_[0], revision, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForProgress(8));  // it has looked at the store since
  EXPECT_EQ(StateAt(third, waiting), StudyState::kQueued);
  Start();
  EXPECT_EQ(EndAt(third, waiting), "succeeded");
}

TEST_F(SharingTest, EachStudyRunsOnce) {
  Start();
  Start();
  Start();
  std::vector<std::string> ids;
  for (int i = 0; i < 12; ++i)
    ids.push_back(Create(*engines_.at(static_cast<std::size_t>(i % 3)), SmallStudy()));
  for (const std::string& id : ids) EXPECT_EQ(EndAt(a(), id), "succeeded");
  EXPECT_THAT(store_->Sql("SELECT study_id FROM events WHERE kind = 'state' AND payload = "
                          "'running' GROUP BY 1 HAVING count(*) <> 1"),
              IsEmpty());
  EXPECT_THAT(store_->Sql("SELECT id FROM studies WHERE lease_token <> 1"), IsEmpty());
  EXPECT_EQ(stale_count_, 0);
}

// The writes of a server that has lost its study are refused, and the study stops there.
TEST_F(SharingTest, AServerThatLostItsStudyStoresNothingOfIt) {
  StartBusyPair();
  TakeAway(names_[0]);
  const std::int64_t revision = b().queries().GetStudy(names_[0])->revision;
  EXPECT_TRUE(WaitFor([&] { return stale_count_ > 0 && a().load().searches.running == 0; }));
  EXPECT_EQ(b().queries().GetStudy(names_[0])->revision, revision);
  EXPECT_EQ(StateAt(a(), names_[0]), StudyState::kRunning);
  EXPECT_TRUE(WaitFor([&] { return a().CheckStore().ok(); }));
  // It goes on with other studies, and may have this one again when its new owner is gone.
  const std::string next = Create(a(), SmallStudy());
  EXPECT_EQ(EndAt(a(), next), "succeeded");
  store_->Sql("UPDATE studies SET lease_expires_ms = 0 WHERE id = '" + names_[0] + "'");
  EventLog& log = NewLog();
  ASSERT_TRUE(b().Subscribe(names_[0], revision, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForState("running"));
  ASSERT_TRUE(log.WaitForProgress(1));
  ASSERT_TRUE(b().CancelStudy(names_[0]).ok());
  ASSERT_TRUE(log.WaitForEnd());
  EXPECT_THAT(log.States(),
              ElementsAre("interrupted", "queued", "running", "cancelling", "cancelled"));
}

TEST_F(SharingTest, AnOrderlyStopHandsStudiesOver) {
  Engine& first = Start();
  const std::string id = Create(first, EndlessStudy());
  EventLog& log = NewLog();
  ASSERT_TRUE(first.Subscribe(id, 0, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForProgress(1));
  Engine& second = Start();
  EventLog& rest = NewLog();
  ASSERT_TRUE(second.Subscribe(id, 0, rest.Sink()).ok());
  engines_.erase(engines_.begin());
  ASSERT_TRUE(rest.WaitForState("interrupted"));
  EXPECT_TRUE(WaitFor([&] { return second.load().searches.running == 1; }));
  ASSERT_TRUE(second.CancelStudy(id).ok());
  ASSERT_TRUE(rest.WaitForEnd());
  // An orderly stop is not a crash.
  EXPECT_THAT(rest.Events(), Contains(testing::Field(&EventRecord::kind, "shutdown")));
}

// Its servers are told of the wish although the one that ran the study did not see it any more.
TEST_F(SharingTest, AWishToPauseIsKeptFromAServerThatIsGone) {
  StartBusyPair();
  store_->Sql(
      "UPDATE studies SET pause_wanted = 1, lease_token = lease_token + 1, "
      "lease_expires_ms = 0 WHERE id = '" +
      names_[0] + "'");
  EventLog& log = NewLog();
  ASSERT_TRUE(b().Subscribe(names_[0], 0, log.Sink()).ok());
  ASSERT_TRUE(log.WaitForState("paused"));
  EXPECT_THAT(log.States(), Not(Contains("failed")));
}

TEST_F(SharingTest, AStudyIsDeletedAtTheOtherServerAndItsWatchersEnd) {
  StartBusyPair();
  EventLog& log = NewLog();
  ASSERT_TRUE(a().Subscribe(names_[0], 0, log.Sink()).ok());
  ASSERT_TRUE(b().CancelStudy(names_[0]).ok());
  ASSERT_TRUE(log.WaitForEnd());
  const auto nothing = [](const DeletedStudy&) { return std::string(); };
  ASSERT_TRUE(b().DeleteStudy({.study_id = names_[0]}, {}, nothing).ok());
  EXPECT_TRUE(absl::IsNotFound(a().queries().GetStudy(names_[0]).status()));
  // A study that goes while it is followed ends its watchers.
  EventLog& other = NewLog();
  ASSERT_TRUE(a().Subscribe(names_[1], 0, other.Sink()).ok());
  store_->Sql("DELETE FROM studies WHERE id = '" + names_[1] + "'");
  ASSERT_TRUE(other.WaitForEnd());
}

// A measurement that another server has stored counts for the next answer.
TEST_F(SharingTest, HistoryIsThatOfAllServers) {
  Engine& first = Start();
  Engine& second = Start();
  EXPECT_EQ(first.History(std::nullopt)->sequence, 0);
  const absl::Status stored = second.store().write([](Recorder& recorder) {
    return recorder.InsertMeasurements(std::vector{MakeMeasurement("m")}).status();
  });
  ASSERT_TRUE(stored.ok()) << stored;
  EXPECT_EQ(first.History(std::nullopt)->sequence, 1);
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

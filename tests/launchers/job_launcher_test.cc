#include "server/launchers/jobs/job_launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <utility>

#include "server/launchers/local/local_engine.h"

namespace meshwright {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Journals of one trial in memory.
struct Notes {
  int count = 0;  // attempts
  bool is_adopted = false;
  std::vector<EarlierAttempt> earlier = {};
  Seconds earlier_time = Seconds(0);
  std::vector<std::string> lines = {};  // what was written down, in order
  AttemptReport last = {};

  [[nodiscard]] OpenAttempt Newest() const {
    return {.id = fmt::format("s-t1-a{}", count),
            .token = 10 + count,
            .is_adopted = is_adopted,
            .earlier = earlier,
            .earlier_time = earlier_time};
  }

  AttemptJournal Journal() {
    return {.newest = [this]() -> absl::StatusOr<OpenAttempt> {
              count = std::max(count, 1);
              return Newest();
            },
            .update =
                [this](AttemptState state, const std::string& id,
                       const std::vector<std::string>& /*nodes*/) {
                  lines.push_back(fmt::format("a{} {} {}", count, Word(state), id));
                  return absl::OkStatus();
                },
            .again = [this](const AttemptReport& report) -> absl::StatusOr<OpenAttempt> {
              lines.push_back(fmt::format("a{} ended {}", count++, report.failure_class));
              is_adopted = false;
              return Newest();
            },
            .report = [this](const AttemptReport& report) { last = report; }};
  }
};

// An engine that does as it is told: the statuses of each attempt, one a poll, the last for ever.
class FakeEngine final : public JobEngine {
 public:
  absl::StatusOr<std::string> Submit(const JobSpec& spec) override {
    submitted.push_back(spec);
    if (!refusal.ok()) return refusal;
    return fmt::format("job{}", submitted.size());
  }
  absl::StatusOr<std::vector<JobStatus>> Poll(std::span<const JobHandle> jobs) override {
    if (!silence.ok()) return silence;
    std::deque<JobStatus>& told = statuses[jobs.front().attempt_id];
    if (told.empty()) return std::vector<JobStatus>(1);
    const JobStatus status = told.front();
    if (told.size() > 1) told.pop_front();
    if (on_poll) on_poll(status);
    return std::vector{status};
  }
  absl::Status Cancel(const JobHandle& job) override {
    if (!deafness.ok()) return deafness;
    cancelled.push_back(job.attempt_id);
    if (!knows_what_it_cancels) return absl::OkStatus();
    statuses[job.attempt_id] = {
        {.state = JobState::kEnded, .end = JobEnd{.kind = JobEndKind::kCancelled}}};
    return absl::OkStatus();
  }

  std::vector<JobSpec> submitted;
  std::vector<std::string> cancelled;
  bool knows_what_it_cancels = true;
  std::map<std::string, std::deque<JobStatus>> statuses;
  absl::Status refusal;
  absl::Status silence;
  absl::Status deafness;  // to what it is asked to cancel
  std::function<void(const JobStatus&)> on_poll;
};

JobStatus Pending() { return {.external_id = "7", .state = JobState::kPending}; }
JobStatus Running() { return {.external_id = "7", .state = JobState::kRunning}; }
JobStatus Ended(JobEnd end, std::vector<std::string> nodes = {}) {
  return {.external_id = "7", .state = JobState::kEnded, .nodes = std::move(nodes), .end = end};
}

class JobLauncherTest : public testing::Test {
 protected:
  JobLauncherTest() {
    std::string pattern = testing::TempDir() + "job_launcher.XXXXXX";
    folder_ = mkdtemp(pattern.data());
    auto engine = std::make_unique<FakeEngine>();
    engine_ = engine.get();
    MakeLauncher(std::move(engine));
  }
  ~JobLauncherTest() override { std::filesystem::remove_all(folder_); }

  void MakeLauncher(std::unique_ptr<JobEngine> engine) {
    options_.make_job = [this](const ParallelPlan& plan, const OpenAttempt& attempt,
                               Seconds time_limit) -> absl::StatusOr<JobSpec> {
      return JobSpec{
          .command = {"bash", "-c", script_, "bash", attempt.id, std::to_string(attempt.token)},
          .processes_per_node = plan.tensor_parallel,
          .time_limit = time_limit};
    };
    options_.journal = notes_.Journal();
    options_.folder = folder_;
    launcher_ = std::make_unique<JobLauncher>(std::move(engine), options_);
  }

  void WriteFile(const std::string& name, const std::string& attempt, int token,
                 const std::string& members) {
    std::ofstream(folder_ + "/" + name) << fmt::format(
        R"({{"meshwright_result":1,"attempt":"{}","token":{},{}}})", attempt, token, members);
  }
  void WriteResult(const std::string& attempt, int token, const std::string& members) {
    WriteFile(attempt + ".result.json", attempt, token, members);
  }

  absl::StatusOr<FinishedTrial> Run(std::optional<Seconds> time_left = {}) {
    RETURN_IF_ERROR(
        launcher_->Submit({.id = 4, .plan = {.tensor_parallel = 2}, .time_left = time_left}));
    for (int i = 0; i < 2000; ++i) {
      ASSIGN_OR_RETURN(const auto finished, launcher_->Wait(Seconds(0.01)));
      if (finished.has_value()) return *finished;
    }
    return absl::DeadlineExceededError("the trial does not end");
  }

  // The trial with a job that ended so, with no result.
  TrialOutcome After(JobEnd end) {
    engine_->statuses["s-t1-a1"] = {Running(), Ended(end)};
    const auto finished = Run();
    EXPECT_TRUE(finished.ok()) << finished.status();
    return finished.ok() ? finished->outcome : TrialOutcome(Cancelled());
  }

  std::string folder_;
  std::string script_ = "true";
  Notes notes_;
  FakeEngine* engine_ = nullptr;
  JobLauncherOptions options_ = {.poll_interval = Seconds(0.001),
                                 .lost_limit = Seconds(0.05),
                                 .collect_limit = Seconds(0.02),
                                 .silence_limit = Seconds(0.05)};
  std::unique_ptr<JobLauncher> launcher_;
};

constexpr char kMeasured[] = R"("class":"ok","step_time_seconds":1.5,"peak_memory_bytes":1000)";

TEST_F(JobLauncherTest, WhatTheHarnessMeasured) {
  engine_->statuses["s-t1-a1"] = {Pending(), Running(), Ended({.exit_code = 0})};
  WriteResult("s-t1-a1", 11, kMeasured);
  const auto finished = Run();
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->id, 4);
  EXPECT_EQ(finished->outcome,
            TrialOutcome(Ran{.step_time = Seconds(1.5), .peak_memory = Bytes{1000}}));
  EXPECT_THAT(notes_.lines, ElementsAre("a1 submitted job1", "a1 submitted 7", "a1 running 7"));
  EXPECT_EQ(engine_->submitted.size(), 1u);
  EXPECT_EQ(engine_->submitted[0].attempt_id, "s-t1-a1");
  EXPECT_EQ(notes_.last.failure_class, "");
}

TEST_F(JobLauncherTest, OutOfMemoryTeachesAndIsNotTriedAgain) {
  engine_->statuses["s-t1-a1"] = {Ended({.exit_code = 40})};
  WriteResult("s-t1-a1", 11, R"("class":"oom_device","log_tail":"CUDA out of memory")");
  EXPECT_EQ(Run()->outcome, TrialOutcome(OutOfMemory()));
  EXPECT_EQ(notes_.last.failure_class, "oom_device");
  EXPECT_EQ(notes_.last.log_tail, "CUDA out of memory");
  EXPECT_EQ(engine_->submitted.size(), 1u);
}

TEST_F(JobLauncherTest, ANodeFailureIsTriedAgainElsewhere) {
  engine_->statuses["s-t1-a1"] = {Running(),
                                  Ended({.kind = JobEndKind::kNodeFailure}, {"n1", "n2"})};
  engine_->statuses["s-t1-a2"] = {Ended({.exit_code = 0})};
  WriteResult("s-t1-a2", 12, kMeasured);
  EXPECT_TRUE(std::holds_alternative<Ran>(Run()->outcome));
  ASSERT_EQ(engine_->submitted.size(), 2u);
  EXPECT_THAT(engine_->submitted[1].excluded_nodes, ElementsAre("n1", "n2"));
  EXPECT_THAT(notes_.lines, ElementsAre("a1 submitted job1", "a1 running 7",
                                        "a1 ended node_failure", "a2 submitted job2"));
}

TEST_F(JobLauncherTest, AHangIsTriedOnceMore) {
  for (const int attempt : {1, 2}) {
    const std::string id = fmt::format("s-t1-a{}", attempt);
    engine_->statuses[id] = {Ended({.exit_code = 44})};
    WriteResult(id, 10 + attempt, R"("class":"hang")");
  }
  EXPECT_EQ(Run()->outcome, TrialOutcome(Hung()));
  EXPECT_EQ(engine_->submitted.size(), 2u);
}

TEST_F(JobLauncherTest, EndsWithoutAResult) {
  EXPECT_EQ(After({.exit_code = 1}), TrialOutcome(Crashed()));
  engine_->statuses["s-t1-a1"].back().run_time = Seconds(7);  // though nobody saw it run
  EXPECT_EQ(Run()->time, Seconds(7));
}
TEST_F(JobLauncherTest, TimeLimitOfTheEngine) {
  EXPECT_EQ(After({.kind = JobEndKind::kTimeLimit}), TrialOutcome(TimedOut()));
}
// Of which a plan that needs longer proves nothing.
TEST_F(JobLauncherTest, WhatIsLeftOfABudgetIsALimit) {
  engine_->statuses["s-t1-a1"] = {Running(), Ended({.kind = JobEndKind::kTimeLimit})};
  EXPECT_EQ(Run(Seconds(90))->outcome, TrialOutcome(Cancelled()));
  EXPECT_EQ(notes_.last.failure_class, "budget");
  EXPECT_THAT(notes_.last.message, HasSubstr("left of the budget"));
  EXPECT_EQ(engine_->submitted.back().time_limit, Seconds(90));
  engine_->statuses["s-t1-a1"] = {Running(), Ended({.kind = JobEndKind::kTimeLimit})};
  EXPECT_EQ(Run(Seconds(5000))->outcome, TrialOutcome(TimedOut()));
  EXPECT_EQ(engine_->submitted.back().time_limit, Seconds(1800));
}

// The second attempt has what the first has left.
TEST_F(JobLauncherTest, AttemptsShareWhatIsLeftOfABudget) {
  notes_.earlier = {{.failure_class = "preempted"}};
  notes_.earlier_time = Seconds(60);
  engine_->statuses["s-t1-a1"] = {Ended({.kind = JobEndKind::kPreempted})};
  engine_->statuses["s-t1-a2"] = {Ended({.exit_code = 0})};
  WriteResult("s-t1-a2", 12, kMeasured);
  EXPECT_TRUE(std::holds_alternative<Ran>(Run(Seconds(90))->outcome));
  EXPECT_EQ(engine_->submitted[0].time_limit, Seconds(30));
  notes_ = {.earlier = {{.failure_class = "preempted"}}, .earlier_time = Seconds(90)};
  engine_->submitted.clear();
  engine_->statuses["s-t1-a1"] = {Ended({.kind = JobEndKind::kPreempted})};
  EXPECT_EQ(Run(Seconds(90))->outcome, TrialOutcome(Cancelled()));
  EXPECT_EQ(engine_->submitted.size(), 1U);  // no further one
}

TEST_F(JobLauncherTest, CancelledByHand) {
  EXPECT_EQ(After({.kind = JobEndKind::kCancelled}), TrialOutcome(Cancelled()));
  EXPECT_EQ(notes_.last.failure_class, "cancelled");
}

// The engine ended it, which the harness can only tell as having been ended.
TEST_F(JobLauncherTest, AnEngineKnowsWhyItEndedAJob) {
  engine_->statuses["s-t1-a1"] = {Ended({.kind = JobEndKind::kTimeLimit})};
  WriteResult("s-t1-a1", 11, R"("class":"cancelled")");
  EXPECT_EQ(Run()->outcome, TrialOutcome(TimedOut()));
}

TEST_F(JobLauncherTest, AResultOfAnotherLeaseIsNotTaken) {
  engine_->statuses["s-t1-a1"] = {Ended({.exit_code = 1})};
  WriteResult("s-t1-a1", 10, kMeasured);
  EXPECT_EQ(Run()->outcome, TrialOutcome(Crashed()));
}

TEST_F(JobLauncherTest, AResultThatComesLate) {
  options_.collect_limit = Seconds(5);
  auto engine = std::make_unique<FakeEngine>();
  engine_ = engine.get();
  MakeLauncher(std::move(engine));
  int polls = 0;
  engine_->on_poll = [&](const JobStatus&) {
    if (++polls == 3) WriteResult("s-t1-a1", 11, kMeasured);
  };
  engine_->statuses["s-t1-a1"] = {Ended({.exit_code = 0})};
  EXPECT_TRUE(std::holds_alternative<Ran>(Run()->outcome));
}

TEST_F(JobLauncherTest, ADamagedResultIsNone) {
  engine_->statuses["s-t1-a1"] = {Ended({.exit_code = 1})};
  std::ofstream(folder_ + "/s-t1-a1.result.json") << R"({"meshwright_result":1,"att)";
  EXPECT_EQ(Run()->outcome, TrialOutcome(Crashed()));
  EXPECT_THAT(notes_.last.message, HasSubstr("no JSON object"));
}

TEST_F(JobLauncherTest, WhatAnotherRankSaysIsNearerThanBeingEnded) {
  engine_->statuses["s-t1-a1"] = {Running(), Ended({.exit_code = 143})};
  WriteResult("s-t1-a1", 11, R"("class":"cancelled")");
  WriteFile("s-t1-a1.rank2.failure.json", "s-t1-a1", 11, R"("class":"crash")");
  WriteFile("s-t1-a1.rank1.failure.json", "s-t1-a1", 11,
            R"("class":"oom_device","message":"86","log_tail":"no memory")");
  WriteFile("s-t1-a1.rank3.failure.json", "s-t1-a1", 10, R"("class":"oom_device")");
  EXPECT_EQ(Run()->outcome, TrialOutcome(OutOfMemory()));
  EXPECT_EQ(notes_.last.failure_class, "oom_device");
  EXPECT_EQ(notes_.last.log_tail, "no memory");
}

// Only the process that measures knows that it has seen enough.
TEST_F(JobLauncherTest, WhatIsMeasuredIsEnded) {
  engine_->statuses["s-t1-a1"] = {Running()};
  WriteResult("s-t1-a1", 11, kMeasured);
  EXPECT_TRUE(std::holds_alternative<Ran>(Run()->outcome));
  EXPECT_THAT(engine_->cancelled, ElementsAre("s-t1-a1"));
}

// More than half of the cluster's nodes cannot be left out.
TEST_F(JobLauncherTest, NodesAreNotAvoidedWhereTooFewAreLeft) {
  engine_->statuses["s-t1-a1"] = {Ended({.exit_code = 44}, {"n1", "n2"})};
  WriteResult("s-t1-a1", 11, R"("class":"hang")");
  engine_->statuses["s-t1-a2"] = {Ended({.kind = JobEndKind::kRefused})};
  engine_->statuses["s-t1-a3"] = {Ended({.exit_code = 44}, {"n1", "n2"})};
  WriteResult("s-t1-a3", 13, R"("class":"hang")");
  EXPECT_EQ(Run()->outcome, TrialOutcome(Hung()));
  ASSERT_EQ(engine_->submitted.size(), 3u);
  EXPECT_THAT(engine_->submitted[1].excluded_nodes, ElementsAre("n1", "n2"));
  EXPECT_THAT(engine_->submitted[2].excluded_nodes, testing::IsEmpty());
}

TEST_F(JobLauncherTest, WhatIsLostIsCancelledBeforeTheNextAttempt) {
  engine_->refusal = absl::DeadlineExceededError("sbatch had not ended after 30 s");
  EXPECT_EQ(Run()->outcome, TrialOutcome(Cancelled()));
  EXPECT_THAT(engine_->cancelled, ElementsAre("s-t1-a1", "s-t1-a2"));
}

// The submission timed out, the study was stopped, and only then the job came.
TEST_F(JobLauncherTest, ACancelledJobMayStillCome) {
  engine_->refusal = absl::DeadlineExceededError("sbatch had not ended after 30 s");
  engine_->knows_what_it_cancels = false;
  ASSERT_TRUE(launcher_->Submit({.id = 4}).ok());
  launcher_->Cancel(4);
  EXPECT_EQ(launcher_->Wait(Seconds(0.01)).value(), std::nullopt);
  engine_->statuses["s-t1-a1"] = {Running()};
  engine_->knows_what_it_cancels = true;
  ASSERT_TRUE(launcher_->Wait(Seconds(5)).value().has_value());
  EXPECT_EQ(engine_->statuses["s-t1-a1"].front().state, JobState::kEnded);
}

// What the retry table leans on outlives the server.
TEST_F(JobLauncherTest, EarlierAttemptsCountAfterARestart) {
  notes_.earlier = {{.failure_class = "hang"}};
  engine_->statuses["s-t1-a1"] = {Ended({.exit_code = 44})};
  WriteResult("s-t1-a1", 11, R"("class":"hang")");
  EXPECT_EQ(Run()->outcome, TrialOutcome(Hung()));
  EXPECT_EQ(engine_->submitted.size(), 1u);
}

TEST_F(JobLauncherTest, NodesStayAvoidedAfterARestart) {
  notes_.earlier = {{.failure_class = "node_failure", .nodes = {"n1"}},
                    {.failure_class = "preempted", .nodes = {"n2"}}};
  engine_->statuses["s-t1-a1"] = {Ended({.kind = JobEndKind::kNodeFailure}, {"n3"})};
  engine_->statuses["s-t1-a2"] = {Ended({.exit_code = 0})};
  WriteResult("s-t1-a2", 12, kMeasured);
  EXPECT_TRUE(std::holds_alternative<Ran>(Run()->outcome));
  ASSERT_EQ(engine_->submitted.size(), 2u);
  EXPECT_THAT(engine_->submitted[0].excluded_nodes, ElementsAre("n1"));
  EXPECT_THAT(engine_->submitted[1].excluded_nodes, ElementsAre("n1", "n3"));
}
TEST_F(JobLauncherTest, NodesThatCouldNotBeAvoidedAreNotAfterARestart) {
  notes_.earlier = {{.failure_class = "node_failure", .nodes = {"n1", "n2"}},
                    {.failure_class = "refused"}};
  engine_->statuses["s-t1-a1"] = {Ended({.exit_code = 0}, {"n2"})};
  WriteResult("s-t1-a1", 11, kMeasured);
  EXPECT_TRUE(std::holds_alternative<Ran>(Run()->outcome));
  EXPECT_THAT(engine_->submitted[0].excluded_nodes, testing::IsEmpty());
  EXPECT_THAT(notes_.last.nodes, ElementsAre("n2"));
}

// The server was killed: before it submitted, while the job ran, after it had ended.
TEST_F(JobLauncherTest, WhatIsAdoptedIsNotSubmittedAgain) {
  notes_ = {.count = 1, .is_adopted = true};
  engine_->statuses["s-t1-a1"] = {Running(), Ended({.exit_code = 0})};
  WriteResult("s-t1-a1", 11, kMeasured);
  EXPECT_TRUE(std::holds_alternative<Ran>(Run()->outcome));
  EXPECT_TRUE(engine_->submitted.empty());
}
TEST_F(JobLauncherTest, WhatNeverCameToTheEngineIsSubmittedAsAnotherAttempt) {
  notes_ = {.count = 1, .is_adopted = true};
  engine_->statuses["s-t1-a2"] = {Ended({.exit_code = 0})};
  WriteResult("s-t1-a2", 12, kMeasured);
  EXPECT_TRUE(std::holds_alternative<Ran>(Run()->outcome));
  ASSERT_EQ(engine_->submitted.size(), 1u);
  EXPECT_EQ(engine_->submitted[0].attempt_id, "s-t1-a2");
  EXPECT_EQ(notes_.lines.front(), "a1 ended lost");
}
TEST_F(JobLauncherTest, AForgottenJobMayHaveLeftItsResult) {
  notes_ = {.count = 1, .is_adopted = true};
  WriteResult("s-t1-a1", 11, kMeasured);
  EXPECT_TRUE(std::holds_alternative<Ran>(Run()->outcome));
  EXPECT_TRUE(engine_->submitted.empty());
}

TEST_F(JobLauncherTest, CancelEndsIt) {
  engine_->statuses["s-t1-a1"] = {Running()};
  ASSERT_TRUE(launcher_->Submit({.id = 4}).ok());
  EXPECT_EQ(launcher_->Wait(Seconds(0.02)).value(), std::nullopt);
  launcher_->Cancel(3);
  EXPECT_EQ(launcher_->Wait(Seconds(0.02)).value(), std::nullopt);
  launcher_->Cancel(4);
  const auto finished = launcher_->Wait(Seconds(5)).value();
  ASSERT_TRUE(finished.has_value());
  EXPECT_EQ(finished->outcome, TrialOutcome(Cancelled()));
}

TEST_F(JobLauncherTest, WaitsInTheQueueOnlySoLong) {
  options_.queue_limit = Seconds(0.03);
  auto engine = std::make_unique<FakeEngine>();
  engine_ = engine.get();
  MakeLauncher(std::move(engine));
  engine_->statuses["s-t1-a1"] = {Pending()};
  EXPECT_EQ(Run()->outcome, TrialOutcome(Cancelled()));
  EXPECT_EQ(notes_.last.failure_class, "queue_timeout");
}

TEST_F(JobLauncherTest, ThreeRefusalsInARowEndTheStudy) {
  engine_->refusal = absl::FailedPreconditionError("sbatch: Invalid account");
  EXPECT_EQ(Run()->outcome, TrialOutcome(Cancelled()));
  EXPECT_EQ(notes_.last.failure_class, "refused");
  EXPECT_EQ(Run()->outcome, TrialOutcome(Cancelled()));
  const auto third = Run();
  EXPECT_EQ(Reason(third.status()), "SITE_FAILURE");
  EXPECT_THAT(std::string(third.status().message()), HasSubstr("sbatch: Invalid account"));
}

TEST_F(JobLauncherTest, ASilentEngineIsWaitedForAndThenAnError) {
  engine_->silence = absl::UnavailableError("squeue: no answer");
  const auto finished = Run();
  EXPECT_TRUE(absl::IsUnavailable(finished.status())) << finished.status();
  EXPECT_THAT(engine_->cancelled, ElementsAre("s-t1-a1"));  // nobody will look at it any more
}

// Its result lies in a folder.
TEST_F(JobLauncherTest, WhatIsMeasuredCountsWhoeverIsSilent) {
  options_.silence_limit = Seconds(60);
  options_.first_limit = Seconds(0);  // it has answered: it took the job
  std::vector<std::string> told;
  options_.on_status = [&](int trial, const std::string& what) {
    told.push_back(fmt::format("{} {}", trial, what));
  };
  auto engine = std::make_unique<FakeEngine>();
  engine_ = engine.get();
  MakeLauncher(std::move(engine));
  engine_->silence = absl::UnavailableError("squeue: no answer");
  WriteResult("s-t1-a1", 10, kMeasured);  // of an older token
  ASSERT_TRUE(launcher_->Submit({.id = 4}).ok());
  EXPECT_EQ(launcher_->Wait(Seconds(0.01)).value(), std::nullopt);
  WriteResult("s-t1-a1", 11, kMeasured);
  // Its other processes may go on, and hold the nodes of the next.
  engine_->deafness = engine_->silence;
  EXPECT_EQ(launcher_->Wait(Seconds(0.05)).value(), std::nullopt);
  engine_->deafness = absl::OkStatus();
  const auto finished = launcher_->Wait(Seconds(5)).value();
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(std::holds_alternative<Ran>(finished->outcome));
  EXPECT_THAT(told, ElementsAre("4 the engine does not answer: squeue: no answer"));
  EXPECT_THAT(engine_->cancelled, ElementsAre("s-t1-a1"));
}

// The harness was killed, or never came to run.
TEST_F(JobLauncherTest, WithoutAResultTheEndsOfTheLogAreKept) {
  constexpr std::size_t kEnd = 64 << 10;
  std::ofstream(folder_ + "/s-t1-a1.log") << "of the job";
  std::ofstream(folder_ + "/s-t1-a1.out") << "";
  EXPECT_EQ(After({.exit_code = 127}), TrialOutcome(Cancelled()));
  EXPECT_EQ(notes_.last.log_head, "of the job");
  EXPECT_EQ(notes_.last.log_tail, "");
  std::ofstream(folder_ + "/s-t1-a1.out")
      << "begin\xff" << std::string(3 * kEnd, '.') << "Traceback\n";
  EXPECT_EQ(After({.exit_code = 1}), TrialOutcome(Crashed()));
  EXPECT_THAT(notes_.last.log_head, testing::StartsWith("begin?.."));
  EXPECT_THAT(notes_.last.log_tail, testing::EndsWith("..Traceback\n"));
  EXPECT_EQ(notes_.last.log_head.size() + notes_.last.log_tail.size(), 2 * kEnd);
}

TEST_F(JobLauncherTest, HowWellItWasMeasured) {
  engine_->statuses["s-t1-a1"] = {Ended({.exit_code = 0})};
  WriteResult(
      "s-t1-a1", 11,
      std::string(kMeasured) + R"(,"environment":{"digest":"abc"},"suspect":[{"reason":"drift"}])");
  const auto finished = Run();
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_THAT(finished->suspect_reasons, ElementsAre("drift"));
  EXPECT_EQ(finished->environment_digest, "abc");
  EXPECT_EQ(notes_.last.quality.environment_digest, "abc");
}

// With real processes, one of which writes what a harness writes.
TEST_F(JobLauncherTest, OnThisMachine) {
  const std::string slots = folder_ + "/slots";
  std::filesystem::create_directories(slots);
  script_ =
      "if ((RANK == 0)); then printf '{\"meshwright_result\":1,\"attempt\":\"%s\",\"token\":%s,"
      "\"class\":\"ok\",\"step_time_seconds\":0.25}' \"$1\" \"$2\" >\"$1.part\"; "
      "mv \"$1.part\" \"$1.result.json\"; fi";
  MakeLauncher(
      std::make_unique<LocalEngine>(LocalEngineOptions{.slots_folder = slots, .slot_count = 2}));
  const auto finished = Run();
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->outcome, TrialOutcome(Ran{.step_time = Seconds(0.25)}));
}

}  // namespace
}  // namespace meshwright

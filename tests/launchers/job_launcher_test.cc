#include "server/launchers/jobs/job_launcher.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <stdlib.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <utility>

#include "server/launchers/local/local_engine.h"
#include "tests/files/temporary_folder.h"
#include "tests/launchers/job_launcher_fixture.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

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
  engine_->statuses["s-t1-a1"].back().run_time = Seconds(7);  // although nobody saw it run
  EXPECT_EQ(Run()->time, Seconds(7));
}
TEST_F(JobLauncherTest, TimeLimitOfTheEngine) {
  EXPECT_EQ(After({.kind = JobEndKind::kTimeLimit}), TrialOutcome(TimedOut()));
}
// A plan that needs longer than the rest of a budget has shown nothing.
TEST_F(JobLauncherTest, WhatIsLeftOfABudgetIsALimit) {
  engine_->statuses["s-t1-a1"] = {Running(), Ended({.kind = JobEndKind::kTimeLimit})};
  engine_->statuses["s-t1-a1"].back().run_time = Seconds(91);
  const auto cut = Run(Seconds(90));
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ(cut->outcome, TrialOutcome(Cancelled()));
  EXPECT_EQ(cut->time, Seconds(91));  // which the budget counts
  EXPECT_EQ(cut->failure_class, "budget");
  EXPECT_EQ(notes_.last.failure_class, "budget");
  EXPECT_THAT(notes_.last.message, HasSubstr("time budget was used up"));
  EXPECT_EQ(engine_->submitted.size(), 1u);  // it is not tried again
  EXPECT_EQ(engine_->submitted.back().time_limit, Seconds(90));
  engine_->statuses["s-t1-a1"] = {Running(), Ended({.kind = JobEndKind::kTimeLimit})};
  EXPECT_EQ(Run(Seconds(5000))->outcome, TrialOutcome(TimedOut()));
  EXPECT_EQ(engine_->submitted.back().time_limit, Seconds(1800));
}

// The second attempt gets what the first one has left.
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
  EXPECT_EQ(engine_->submitted.size(), 1U);  // no further attempt
}

TEST_F(JobLauncherTest, CancelledByHand) {
  EXPECT_EQ(After({.kind = JobEndKind::kCancelled}), TrialOutcome(Cancelled()));
  EXPECT_EQ(notes_.last.failure_class, "cancelled");
}

// The engine ended the job, and the harness only knows that it was ended.
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
  EXPECT_THAT(notes_.last.message, HasSubstr("not a JSON object"));
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

// The retry table depends on what survives a restart of the server.
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

// The server was killed before it submitted, while the job ran, or after it had ended.
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

// A wrong pattern for the metrics takes milliseconds for seconds, or something else for a time.
TEST_F(JobLauncherTest, WhatCannotBeMeasuredProvesNothing) {
  struct Case {
    std::string result;
    std::string message;  // a part
  };
  const Case cases[] = {
      {R"("class":"ok","step_time_seconds":1e-12)",
       "step_time_seconds = 1e-12; the devices' nominal peak allows no step below 0.5"},
      {R"("class":"ok","step_time_seconds":1e300)",
       "step_time_seconds = 1e+300; must be <= 31536000"},
      {R"("class":"ok","step_time_seconds":2,"peak_memory_bytes":2000000000000000)",
       "peak_memory_bytes = 2000000000000000; must be <= 1000000000000000"},
  };
  options_.least_step = Seconds(0.5);
  for (const Case& c : cases) {
    auto engine = std::make_unique<FakeEngine>();
    engine_ = engine.get();
    MakeLauncher(std::move(engine));
    engine_->statuses["s-t1-a1"] = {Ended({})};
    WriteResult("s-t1-a1", 11, c.result);
    const auto finished = Run();
    ASSERT_TRUE(finished.ok()) << finished.status();
    EXPECT_EQ(finished->outcome, TrialOutcome(Cancelled())) << c.result;
    EXPECT_EQ(finished->failure_class, "metrics_invalid");
    EXPECT_THAT(finished->failure_message, HasSubstr(c.message));
  }
}

// An engine's texts go into the store and to terminals.
TEST_F(JobLauncherTest, AnEnginesWordsAreCleaned) {
  engine_->refusal = absl::FailedPreconditionError("sbatch:\n\x1b[2Jno such partition");
  const auto finished = Run();
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->failure_message, "sbatch:  [2Jno such partition");
  EXPECT_EQ(notes_.last.message, "sbatch:  [2Jno such partition");
}

TEST_F(JobLauncherTest, ASilentEngineIsWaitedForAndThenAnError) {
  engine_->silence = absl::UnavailableError("squeue: no answer");
  const auto finished = Run();
  EXPECT_TRUE(absl::IsUnavailable(finished.status())) << finished.status();
  EXPECT_THAT(engine_->cancelled, ElementsAre("s-t1-a1"));  // nobody will poll it any more
}

// The result is in a folder.
TEST_F(JobLauncherTest, WhatIsMeasuredCountsWhoeverIsSilent) {
  options_.silence_limit = Seconds(60);
  options_.first_limit = Seconds(0);  // it has answered, because it took the job
  std::vector<std::string> told;
  options_.on_status = [&](int trial, const std::string& what) {
    told.push_back(fmt::format("{} {}", trial, what));
  };
  auto engine = std::make_unique<FakeEngine>();
  engine_ = engine.get();
  MakeLauncher(std::move(engine));
  engine_->silence = absl::UnavailableError("squeue: no answer");
  WriteResult("s-t1-a1", 10, kMeasured);  // with an older token
  ASSERT_TRUE(launcher_->Submit({.id = 4}).ok());
  EXPECT_EQ(launcher_->Wait(Seconds(0.01)).value(), std::nullopt);
  WriteResult("s-t1-a1", 11, kMeasured);
  // The job's other processes may go on and occupy the nodes of the next job.
  engine_->deafness = engine_->silence;
  EXPECT_EQ(launcher_->Wait(Seconds(0.05)).value(), std::nullopt);
  engine_->deafness = absl::OkStatus();
  const auto finished = launcher_->Wait(Seconds(5)).value();
  ASSERT_TRUE(finished.has_value());
  EXPECT_TRUE(std::holds_alternative<Ran>(finished->outcome));
  EXPECT_THAT(told, ElementsAre("4 the engine does not answer: squeue: no answer"));
  EXPECT_THAT(engine_->cancelled, ElementsAre("s-t1-a1"));
}

// The harness was killed, or was never started.
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

// Runs real processes, one of which writes what a harness writes.
TEST_F(JobLauncherTest, OnThisMachine) {
  const std::string slots = folder_ + "/slots";
  std::filesystem::create_directories(slots);
  script_ =
      "if ((RANK == 0)); then printf '{\"meshwright_result\":1,\"attempt\":\"%s\",\"token\":%s,"
      "\"class\":\"ok\",\"step_time_seconds\":0.25}' \"$1\" \"$2\" >\"$1.part\"; "
      "mv \"$1.part\" \"$1.result.json\"; fi";
  options_.clock = {};  // the processes take the time that they take
  MakeLauncher(
      std::make_unique<LocalEngine>(LocalEngineOptions{.slots_folder = slots, .slot_count = 2}));
  const auto finished = Run();
  ASSERT_TRUE(finished.ok()) << finished.status();
  EXPECT_EQ(finished->outcome, TrialOutcome(Ran{.step_time = Seconds(0.25)}));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

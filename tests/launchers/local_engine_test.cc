#include "server/launchers/local/local_engine.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"
#include "tests/events/wait_for.h"
#include "tests/launchers/job_engine_conformance.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

constexpr int kSlots = 3;

std::unique_ptr<JobEngine> MakeLocal(const std::string& folder) {
  const std::string slots = folder + "/slots";
  std::filesystem::create_directories(slots);
  return std::make_unique<LocalEngine>(
      LocalEngineOptions{.slots_folder = slots, .slot_count = kSlots});
}

INSTANTIATE_TEST_SUITE_P(Local, JobEngineTest,
                         testing::Values(EngineCase{
                             .make = MakeLocal, .impossible = {.processes_per_node = kSlots + 1}}));

class LocalEngineTest : public JobEngineTest {};

INSTANTIATE_TEST_SUITE_P(Local, LocalEngineTest, testing::Values(EngineCase{.make = MakeLocal}));

TEST_P(LocalEngineTest, WaitsForFreeSlots) {
  JobSpec first = Script("sleep 600.5");
  first.processes_per_node = 2;
  JobSpec second = Script("echo devices $MESHWRIGHT_DEVICES");
  second.processes_per_node = 2;
  ASSERT_TRUE(engine_->Submit(first).ok());
  EXPECT_EQ(Until(JobState::kRunning, first).state, JobState::kRunning);
  ASSERT_TRUE(engine_->Submit(second).ok());
  const JobStatus waiting = Until(JobState::kPending, second);
  EXPECT_EQ(waiting.state, JobState::kPending);
  EXPECT_EQ(waiting.reason, "waits for free device slots");
  EXPECT_TRUE(engine_->Cancel(HandleOf(first)).ok());
  EXPECT_EQ(Until(JobState::kEnded, first).state, JobState::kEnded);
  Until(JobState::kEnded, second);
  // The first job gives its two slots back one after the other, so the second takes any two.
  EXPECT_THAT(Output(second), testing::AnyOf(testing::HasSubstr("devices 0,1\n"),
                                             testing::HasSubstr("devices 0,2\n"),
                                             testing::HasSubstr("devices 1,2\n")));
}

// The job sees the devices of the slots that it takes, by their names on the machine.
TEST_P(LocalEngineTest, AJobSeesItsDevicesAlone) {
  const LocalEngineOptions options = {.slots_folder = folder_ + "/slots",
                                      .slot_count = 4,
                                      .slots_per_job = 2,
                                      .visible_devices_variable = "TEST_VISIBLE_DEVICES",
                                      .device_names = {"4", "5", "GPU-a", "7"}};
  engine_ = std::make_unique<LocalEngine>(options);
  const JobSpec first = Script("echo $TEST_VISIBLE_DEVICES of $MESHWRIGHT_DEVICES; sleep 600.25");
  ASSERT_TRUE(engine_->Submit(first).ok());
  Until(JobState::kRunning, first);
  JobSpec second = Script("echo $RANK $TEST_VISIBLE_DEVICES of $MESHWRIGHT_DEVICES");
  second.environment = {{"TEST_VISIBLE_DEVICES", "4,5,GPU-a,7"}};
  second.processes_per_node = 2;
  EXPECT_EQ(Run(second).end, (JobEnd{.exit_code = 0}));
  EXPECT_THAT(Output(second), testing::AllOf(testing::HasSubstr("0 GPU-a,7 of 2,3\n"),
                                             testing::HasSubstr("1 GPU-a,7 of 2,3\n")));
  EXPECT_TRUE(engine_->Cancel(HandleOf(first)).ok());
  Until(JobState::kEnded, first);
  EXPECT_EQ(Output(first), "4,5 of 0,1\n");
}

TEST_P(LocalEngineTest, MemoryOfEachProcessIsLimited) {
  const JobSpec free = Script("ulimit -d");
  Run(free);
  engine_ = std::make_unique<LocalEngine>(
      LocalEngineOptions{.slots_folder = folder_ + "/slots", .memory_limit = Bytes{100 << 20}});
  // bash keeps what it reads: 20 MB fit, 500 MB do not.
  const JobSpec little = Script("a=$(head -c 20000000 /dev/zero | tr '\\0' x); ulimit -d");
  EXPECT_EQ(Run(little).end, (JobEnd{.exit_code = 0}));
  EXPECT_EQ(Output(little), "102400\n");
  EXPECT_NE(Output(free), Output(little));
  const JobSpec much =
      Script("export LC_ALL=C; a=$(head -c 500000000 /dev/zero | tr '\\0' x); echo held");
  EXPECT_NE(Run(much).end, (JobEnd{.exit_code = 0}));
  EXPECT_THAT(Output(much), testing::HasSubstr("cannot allocate"));
}

TEST_P(LocalEngineTest, CancelledWhileItWaits) {
  JobSpec first = Script("sleep 600.75");
  first.processes_per_node = kSlots;
  const JobSpec second = Script("true");
  ASSERT_TRUE(engine_->Submit(first).ok());
  const JobStatus running = Until(JobState::kRunning, first);
  ASSERT_EQ(running.state, JobState::kRunning) << running.reason << "\n" << Output(first);
  ASSERT_TRUE(engine_->Submit(second).ok());
  EXPECT_TRUE(engine_->Cancel(HandleOf(second)).ok());
  const JobStatus cancelled = Until(JobState::kEnded, second);
  EXPECT_EQ(cancelled.end, (JobEnd{.kind = JobEndKind::kCancelled}));
  EXPECT_FALSE(cancelled.run_time.has_value());
  EXPECT_TRUE(engine_->Cancel(HandleOf(first)).ok());
  const JobStatus ended = Until(JobState::kEnded, first);
  EXPECT_EQ(ended.end, (JobEnd{.kind = JobEndKind::kCancelled})) << ended.reason << Output(first);
}

// The supervisor, which has gone, wrote when the job took its slots and when it ended.
TEST_P(LocalEngineTest, RanFromTakingItsSlotsToItsEnd) {
  struct Case {
    const char* running;  // nullptr: there is no such file
    const char* exit;
    std::optional<Seconds> time;
  };
  const Case cases[] = {
      {"2000", "0 exited 5500", Seconds(3.5)},    {"2000", "143 cancelled 2000", Seconds(0)},
      {"2000", "0 exited 1999", std::nullopt},  // the clock was set back
      {"2000", "0 exited", std::nullopt},         {"soon", "0 exited 5500", std::nullopt},
      {nullptr, "0 cancelled 5500", std::nullopt}};
  for (const Case& c : cases) {
    const JobSpec spec = Script("true");
    const auto write = [&](const char* name, const char* text) {
      std::ofstream(folder_ + "/" + spec.attempt_id + name) << text << "\n";
    };
    write(".pid", "999999999 1");
    if (c.running != nullptr) write(".running", c.running);
    write(".exit", c.exit);
    const JobStatus status = Until(JobState::kEnded, spec);
    EXPECT_EQ(status.state, JobState::kEnded);
    EXPECT_EQ(status.run_time, c.time) << c.exit;
  }
}

TEST_P(LocalEngineTest, TimeLimit) {
  JobSpec spec = Script("sleep 600.125");
  spec.time_limit = Seconds(0.5);
  EXPECT_EQ(Run(spec).end, (JobEnd{.kind = JobEndKind::kTimeLimit}));
}

TEST_P(LocalEngineTest, WhatIgnoresTermIsKilled) {
  const JobSpec spec = Script("trap '' TERM; echo deaf; setsid sleep 600 & sleep 600; wait");
  ASSERT_TRUE(engine_->Submit(spec).ok());
  Until(JobState::kRunning, spec);
  EXPECT_TRUE(WaitFor([&] { return Output(spec).find("deaf") != std::string::npos; }));
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  EXPECT_EQ(Until(JobState::kEnded, spec).end, (JobEnd{.kind = JobEndKind::kCancelled}));
  EXPECT_EQ(ProcessCount(spec), 0);
}

// Programs that wait for signals on a thread of their own block them.
TEST_P(LocalEngineTest, HearsTermThoughItsLauncherDoesNot) {
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGTERM);
  sigset_t before;
  pthread_sigmask(SIG_BLOCK, &blocked, &before);
  const JobSpec spec = Script("sleep 600");
  EXPECT_TRUE(engine_->Submit(spec).ok());
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  Until(JobState::kRunning, spec);
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  EXPECT_EQ(Until(JobState::kEnded, spec).end, (JobEnd{.kind = JobEndKind::kCancelled}));
}

// After a restart of the machine, the supervisor's id may be anybody's.
TEST_P(LocalEngineTest, KillsNoStranger) {
  const pid_t stranger = fork();
  if (stranger == 0) {
    setsid();
    execlp("sleep", "sleep", "600", nullptr);
    _exit(1);
  }
  const JobSpec spec = Script("true");
  std::ofstream(folder_ + "/" + spec.attempt_id + ".pid") << stranger << " 1\n";
  EXPECT_EQ(Until(JobState::kEnded, spec).end->exit_code, 128 + SIGKILL);
  EXPECT_EQ(waitpid(stranger, nullptr, WNOHANG), 0);
  kill(stranger, SIGKILL);
  waitpid(stranger, nullptr, 0);
}

TEST_P(LocalEngineTest, SlotsThatAreNotThere) {
  std::filesystem::remove_all(folder_ + "/slots");
  const auto refused = engine_->Submit(Script("true"));
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
}

TEST_P(LocalEngineTest, SubmittedTwiceRunsOnce) {
  const JobSpec spec = Script("echo once");
  const auto first = engine_->Submit(spec);
  const auto second = engine_->Submit(spec);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_EQ(*first, *second);
  Until(JobState::kEnded, spec);
  EXPECT_EQ(Output(spec), "once\n");
}

TEST_P(LocalEngineTest, SupervisorThatIsKilled) {
  // Training programs have sessions of their own.
  const JobSpec spec = Script("setsid sleep 600 & sleep 600");
  const auto id = engine_->Submit(spec);
  ASSERT_TRUE(id.ok());
  Until(JobState::kRunning, spec);
  kill(std::stoi(*id), SIGKILL);
  const JobStatus status = Until(JobState::kEnded, spec);
  EXPECT_EQ(status.end, (JobEnd{.kind = JobEndKind::kExited, .exit_code = 137}));
  EXPECT_EQ(status.reason, "its supervisor was killed");
  EXPECT_EQ(ProcessCount(spec), 0);
}

TEST_P(LocalEngineTest, SeveralNodes) {
  JobSpec spec = Script("true");
  spec.node_count = 2;
  EXPECT_EQ(engine_->Submit(spec).status().message(), "node_count = 2; must be 1 on this machine");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

#include "tests/launchers/job_engine_conformance.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "search_space/base/units.h"
#include "tests/events/gate.h"
#include "tests/events/wait_for.h"
#include "tests/files/processes.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {

using testing::HasSubstr;

namespace {

// Returns an id that is unique among test runs that share a site.
std::string NewAttemptId() {
  static int count = 0;
  return fmt::format("test-{}-t{}-a1", getpid(), ++count);
}

std::vector<std::string> Lines(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

JobEngineTest::JobEngineTest() { engine_ = GetParam().make(folder_); }

JobEngineTest::~JobEngineTest() = default;

JobSpec JobEngineTest::Script(const std::string& line) const {
  return {.attempt_id = NewAttemptId(), .folder = folder_, .command = {"bash", "-c", line}};
}

JobHandle JobEngineTest::HandleOf(const JobSpec& spec) const {
  return {.attempt_id = spec.attempt_id, .folder = folder_};
}

JobStatus JobEngineTest::Until(JobState state, const JobSpec& job) {
  const JobHandle handle = HandleOf(job);
  auto polled = engine_->Poll({&handle, 1});
  const bool has_come = WaitFor([&] {
    polled = engine_->Poll({&handle, 1});
    return !polled.ok() || (*polled)[0].state >= state;
  });
  EXPECT_TRUE(polled.ok()) << polled.status();
  if (polled.ok() && has_come) return (*polled)[0];
  ADD_FAILURE() << "did not become " << Word(state) << ": " << Output(job);
  return {};
}

JobStatus JobEngineTest::Run(const JobSpec& spec) {
  const auto id = engine_->Submit(spec);
  EXPECT_TRUE(id.ok()) << id.status();
  JobStatus status = Until(JobState::kEnded, spec);
  if (id.ok()) {
    EXPECT_EQ(status.external_id, *id);
  }
  return status;
}

std::string JobEngineTest::Output(const JobSpec& spec) const {
  return ReadFile(fmt::format("{}/{}.log", folder_, spec.attempt_id));
}

int JobEngineTest::ProcessCount(const JobSpec& spec) {
  const std::string mark = fmt::format("{}={}", kAttemptVariable, spec.attempt_id);
  return static_cast<int>(ProcessesWith(mark, {"environ"}).size());
}

bool JobEngineTest::HasProcesses(const JobSpec& spec, bool expected) {
  return WaitFor([&] { return (ProcessCount(spec) > 0) == expected; }) == expected;
}

TEST_P(JobEngineTest, Success) {
  const JobSpec spec = Script("echo hello; echo trouble >&2");
  const JobStatus status = Run(spec);
  EXPECT_EQ(status.end, (JobEnd{.kind = JobEndKind::kExited, .exit_code = 0}));
  EXPECT_THAT(Output(spec), HasSubstr("hello\n"));
  EXPECT_THAT(Output(spec), HasSubstr("trouble\n"));
  EXPECT_FALSE(status.nodes.empty());
}

// Engines count whole seconds, so the job runs until the second has changed. What they make of
// start and end is tested with given times: local_engine_test.cc, slurm_jobs_test.cc,
// kubernetes_jobs_test.cc.
TEST_P(JobEngineTest, TellsHowLongItRan) {
  const JobStatus status =
      Run(Script("begin=$EPOCHSECONDS; while ((EPOCHSECONDS == begin)); do :; done"));
  EXPECT_EQ(status.end, (JobEnd{.kind = JobEndKind::kExited, .exit_code = 0}));
  EXPECT_TRUE(status.run_time.has_value());
}

TEST_P(JobEngineTest, ExitCode) {
  const JobStatus status = Run(Script("exit 42"));
  EXPECT_EQ(status.end, (JobEnd{.kind = JobEndKind::kExited, .exit_code = 42}));
  EXPECT_NE(status.reason, "");
}

TEST_P(JobEngineTest, Killed) {
  const JobStatus status = Run(Script("kill -KILL $$"));
  EXPECT_EQ(status.end, (JobEnd{.kind = JobEndKind::kExited, .exit_code = 137}));
}

TEST_P(JobEngineTest, ProgramThatIsNotThere) {
  JobSpec spec = Script("");
  spec.command = {"/no/such/program"};
  const JobStatus status = Run(spec);
  ASSERT_TRUE(status.end.has_value());
  EXPECT_NE(status.end->exit_code, 0);
  EXPECT_THAT(Output(spec), HasSubstr("/no/such/program"));
}

TEST_P(JobEngineTest, EnvironmentAndWordsArriveAsTheyAre) {
  JobSpec spec = Script("printf '%s|' \"$MW_TEXT\" \"$0\" \"$@\"");
  const std::string text = "a 'b' \"c\" $HOME `date` \\ ä\nsecond line";
  spec.environment = {{"MW_TEXT", text}};
  spec.command.insert(spec.command.end(), {"zero", "", text});
  Run(spec);
  EXPECT_EQ(Output(spec), text + "|zero||" + text + "|");
}

TEST_P(JobEngineTest, RanksOfAllProcesses) {
  JobSpec spec =
      Script("echo $RANK $LOCAL_RANK of $WORLD_SIZE at ${MASTER_ADDR:?}:${MASTER_PORT:?}");
  spec.processes_per_node = GetParam().processes_per_node;
  spec.node_count = GetParam().node_count;
  EXPECT_EQ(Run(spec).end, (JobEnd{.kind = JobEndKind::kExited, .exit_code = 0}));
  const int count = spec.processes_per_node * spec.node_count;
  const std::vector<std::string> lines = Lines(Output(spec));
  ASSERT_EQ(lines.size(), static_cast<std::size_t>(count));
  const std::string address = lines[0].substr(lines[0].find("at "));
  for (int rank = 0; rank < count; ++rank) {
    EXPECT_EQ(lines[static_cast<std::size_t>(rank)],
              fmt::format("{} {} of {} {}", rank, rank % spec.processes_per_node, count, address));
  }
}

TEST_P(JobEngineTest, AFailureEndsTheOtherProcesses) {
  const Gate others(folder_ + "/others");
  JobSpec spec = Script(fmt::format("if ((RANK == 1)); then {}; exit 7; fi; {}; sleep 600",
                                    others.WaitCommand(), others.OpenCommand()));
  spec.processes_per_node = GetParam().processes_per_node;
  spec.node_count = GetParam().node_count;
  const JobStatus status = Run(spec);
  ASSERT_TRUE(status.end.has_value());
  EXPECT_EQ(status.end->kind, JobEndKind::kExited);
  // Slurm reports the highest code, which is that of the terminated processes.
  EXPECT_THAT(status.end->exit_code, testing::AnyOf(7, 128 + SIGTERM));
  EXPECT_FALSE(HasProcesses(spec, false));
}

TEST_P(JobEngineTest, CancelledWhileItRuns) {
  const JobSpec spec = Script("sleep 600");
  ASSERT_TRUE(engine_->Submit(spec).ok());
  EXPECT_EQ(Until(JobState::kRunning, spec).state, JobState::kRunning);
  EXPECT_TRUE(HasProcesses(spec, true));
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  EXPECT_EQ(Until(JobState::kEnded, spec).end, (JobEnd{.kind = JobEndKind::kCancelled}));
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  EXPECT_EQ(Until(JobState::kEnded, spec).end, (JobEnd{.kind = JobEndKind::kCancelled}));
  EXPECT_FALSE(HasProcesses(spec, false));
}

TEST_P(JobEngineTest, CancelOfWhatIsNotThere) {
  const JobSpec spec = Script("true");
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  const JobHandle handle = HandleOf(spec);
  const auto polled = engine_->Poll({&handle, 1});
  ASSERT_TRUE(polled.ok()) << polled.status();
  EXPECT_EQ((*polled)[0].state, JobState::kUnknown);
}

// After a restart of the server only the name is known.
TEST_P(JobEngineTest, AnotherEngineFindsTheJob) {
  const Gate gate(folder_ + "/gate");
  const JobSpec spec = Script(gate.WaitCommand() + "; exit 3");
  const auto id = engine_->Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  engine_ = GetParam().make(folder_);
  EXPECT_EQ(Until(JobState::kPending, spec).external_id, *id);
  gate.Open();
  EXPECT_EQ(Until(JobState::kEnded, spec).end,
            (JobEnd{.kind = JobEndKind::kExited, .exit_code = 3}));
  engine_ = GetParam().make(folder_);
  EXPECT_EQ(Until(JobState::kEnded, spec).end,
            (JobEnd{.kind = JobEndKind::kExited, .exit_code = 3}));
}

TEST_P(JobEngineTest, ManyAtOnceInTheirOrder) {
  std::vector<JobSpec> specs;
  std::vector<JobHandle> handles;
  for (int i = 0; i < 3; ++i) {
    specs.push_back(Script(fmt::format("exit {}", i)));
    handles.push_back(HandleOf(specs.back()));
    ASSERT_TRUE(engine_->Submit(specs.back()).ok());
  }
  handles.push_back(HandleOf(Script("true")));
  for (const JobSpec& spec : specs) Until(JobState::kEnded, spec);
  const auto polled = engine_->Poll(handles);
  ASSERT_TRUE(polled.ok()) << polled.status();
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ((*polled)[i].end,
              (JobEnd{.kind = JobEndKind::kExited, .exit_code = static_cast<int>(i)}));
  }
  EXPECT_EQ((*polled)[3].state, JobState::kUnknown);
}

TEST_P(JobEngineTest, WhatCannotBeIsRefused) {
  JobSpec spec = GetParam().impossible;
  spec.attempt_id = NewAttemptId();
  spec.folder = folder_;
  spec.command = {"true"};
  const auto id = engine_->Submit(spec);
  if (!id.ok()) {
    EXPECT_TRUE(absl::IsFailedPrecondition(id.status())) << id.status();
    return;
  }
  const JobStatus status = Until(JobState::kEnded, spec);
  EXPECT_EQ(status.end, (JobEnd{.kind = JobEndKind::kRefused}));
  EXPECT_NE(status.reason, "");
}

TEST_P(JobEngineTest, GarbageOutput) {
  const JobSpec spec = Script("head -c 1000000 /dev/urandom; echo; echo end");
  EXPECT_EQ(Run(spec).end, (JobEnd{.kind = JobEndKind::kExited, .exit_code = 0}));
  EXPECT_TRUE(Output(spec).ends_with("\nend\n"));
}

}  // namespace meshwright

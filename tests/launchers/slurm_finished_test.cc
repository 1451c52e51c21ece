// Tests jobs that squeue has forgotten (MinJobAge): with accounting, without it, and if Slurm does
// not answer. Programs with the names of Slurm's stand in for them, because the real ones take
// minutes to forget; slurm_engine_test.cc runs those.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/slurm/slurm_engine.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

class SlurmFinishedTest : public testing::Test {
 protected:
  SlurmFinishedTest() {
    setenv("PATH", (folder_ + ":" + path_).c_str(), 1);
    Write("squeue", "");
  }
  ~SlurmFinishedTest() override { setenv("PATH", path_.c_str(), 1); }

  // Writes a program in bash.
  void Write(const std::string& program, const std::string& body) {
    const std::string path = folder_ + "/" + program;
    std::ofstream(path) << "#!/bin/bash\n" << body << "\n";
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }

  absl::StatusOr<std::vector<JobStatus>> Poll(const std::string& attempt) {
    const JobHandle job = {.attempt_id = attempt};
    return SlurmEngine(SlurmEngineOptions()).Poll({&job, 1});
  }

 private:
  const std::string path_ = getenv("PATH");
  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
};

TEST_F(SlurmFinishedTest, AccountingKnowsIt) {
  Write("sacct",
        "[[ $* == *--completion* ]] && exit 1\n"
        "[[ $* == *--name=s-t1-a1* && $* == *--allocations* ]] || exit 1\n"
        "echo '5|s-t1-a1|OUT_OF_MEMORY|0:125|n[1-2]|00:01:00'");
  const auto polled = Poll("s-t1-a1");
  ASSERT_TRUE(polled.ok()) << polled.status();
  EXPECT_EQ(polled->front().end, (JobEnd{.kind = JobEndKind::kOutOfMemory}));
  EXPECT_THAT(polled->front().nodes, ElementsAre("n1", "n2"));
}

TEST_F(SlurmFinishedTest, WithoutAccountingTheFileOfCompletedJobsDoes) {
  Write("sacct",
        "if [[ $* != *--completion* ]]; then\n"
        "  echo 'Slurm accounting storage is disabled' >&2; exit 1\n"
        "fi\n"
        "echo '2|0|s-t1-a1|debug|1|n3|COMPLETED|2026-11-22T16:03:44'");
  const auto polled = Poll("s-t1-a1");
  ASSERT_TRUE(polled.ok()) << polled.status();
  EXPECT_EQ(polled->front().end, (JobEnd{.exit_code = 0}));
}

TEST_F(SlurmFinishedTest, WhatNobodyKnowsIsUnknown) {
  Write("sacct", "echo 'Slurm accounting storage is disabled' >&2; exit 1");
  const auto polled = Poll("s-t1-a1");
  ASSERT_TRUE(polled.ok()) << polled.status();
  EXPECT_EQ(polled->front().state, JobState::kUnknown);
}

TEST_F(SlurmFinishedTest, AControllerThatDoesNotAnswerIsNoEnd) {
  Write("squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
  const auto polled = Poll("s-t1-a1");
  EXPECT_TRUE(absl::IsUnavailable(polled.status())) << polled.status();
  EXPECT_THAT(std::string(polled.status().message()), HasSubstr("Unable to contact"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

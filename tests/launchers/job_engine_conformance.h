#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "server/launchers/jobs/job_engine.h"
#include "tests/files/temporary_folder.h"

namespace meshwright {

// The suite that every JobEngine must pass. An engine's own test file makes the instances:
//
//   INSTANTIATE_TEST_SUITE_P(Local, JobEngineTest, testing::Values(EngineCase{...}));
struct EngineCase {
  // Makes a new engine over the same site, which has at least two places for processes.
  std::function<std::unique_ptr<JobEngine>(const std::string& folder)> make = {};
  int processes_per_node = 2;
  int node_count = 1;
  // A job that asks for more than the site has.
  JobSpec impossible = {};
};

class JobEngineTest : public testing::TestWithParam<EngineCase> {
 protected:
  JobEngineTest();
  ~JobEngineTest() override;

  // Makes a job with one process that runs a line of bash.
  [[nodiscard]] JobSpec Script(const std::string& line) const;
  // Polls until the job reaches the state and returns its status; the test fails if it does not.
  JobStatus Until(JobState state, const JobSpec& job);
  JobStatus Run(const JobSpec& spec);
  [[nodiscard]] std::string Output(const JobSpec& spec) const;
  // Counts the processes of the job that run on this machine.
  static int ProcessCount(const JobSpec& spec);
  // Returns true if there are any: as soon as that is as expected, or else after two minutes.
  static bool HasProcesses(const JobSpec& spec, bool expected);
  [[nodiscard]] JobHandle HandleOf(const JobSpec& spec) const;

  const TemporaryFolder temporary_;
  const std::string folder_ = temporary_.path();
  std::unique_ptr<JobEngine> engine_;
};

}  // namespace meshwright

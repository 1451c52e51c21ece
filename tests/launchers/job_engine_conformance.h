#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>

#include "server/launchers/jobs/job_engine.h"

namespace meshwright {

// What every JobEngine must pass. An engine's own test file makes the instances:
//
//   INSTANTIATE_TEST_SUITE_P(Local, JobEngineTest, testing::Values(EngineCase{...}));
struct EngineCase {
  // A new engine over the same site, with at least two places for processes.
  std::function<std::unique_ptr<JobEngine>(const std::string& folder)> make = {};
  int processes_per_node = 2;
  int node_count = 1;
  // More than the site has, one way or the other.
  JobSpec impossible = {};
};

class JobEngineTest : public testing::TestWithParam<EngineCase> {
 protected:
  JobEngineTest();
  ~JobEngineTest() override;

  // One process that runs a line of bash.
  [[nodiscard]] JobSpec Script(const std::string& line) const;
  // The status once the job has got so far; the test fails when it does not.
  JobStatus Until(JobState state, const JobSpec& job);
  JobStatus Run(const JobSpec& spec);
  [[nodiscard]] std::string Output(const JobSpec& spec) const;
  // Counts the processes of the job that run on this machine.
  static int ProcessCount(const JobSpec& spec);
  // Returns if there are any, as soon as that is as expected; otherwise after two minutes.
  static bool HasProcesses(const JobSpec& spec, bool expected);
  [[nodiscard]] JobHandle HandleOf(const JobSpec& spec) const;

  std::string folder_;
  std::unique_ptr<JobEngine> engine_;
};

}  // namespace meshwright

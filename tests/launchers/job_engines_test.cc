#include "server/launchers/job_engines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string_view>
#include <vector>

#include "server/tuner/question/launcher_facts.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(JobEnginesTest, AreThoseOfTheLaunchersThatRunJobs) {
  std::vector<std::string_view> run_jobs;
  for (const LauncherFacts& launcher : Launchers()) {
    if (launcher.runs_jobs) run_jobs.push_back(launcher.name);
  }
  std::vector<std::string_view> engines;
  for (const JobEngineRow& row : JobEngines()) engines.push_back(row.launcher);
  EXPECT_THAT(engines, testing::UnorderedElementsAreArray(run_jobs));
}

TEST(JobEnginesTest, HaveWhatAStudyNeeds) {
  for (const JobEngineRow& row : JobEngines()) {
    SCOPED_TRACE(row.launcher);
    EXPECT_GT(row.poll_interval, Seconds(0));
    EXPECT_GT(row.lost_limit, Seconds(0));
    EXPECT_NE(row.open, nullptr);
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

#include "server/tuner/question/launcher_facts.h"

#include <gtest/gtest.h>

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

TEST(LauncherFactsTest, AreFoundByName) {
  for (const LauncherFacts& launcher : Launchers()) {
    ASSERT_NE(FindLauncher(launcher.name), nullptr) << launcher.name;
    EXPECT_EQ(FindLauncher(launcher.name)->name, launcher.name);
    // A launcher that runs elsewhere says how its jobs' memory is limited.
    EXPECT_EQ(launcher.memory_advice.empty(), launcher.runs_here || !launcher.runs_jobs)
        << launcher.name;
  }
  EXPECT_EQ(FindLauncher("pbs"), nullptr);
  EXPECT_TRUE(RunsJobs("pbs"));
  EXPECT_FALSE(RunsJobs(kReplayLauncher));
  EXPECT_TRUE(RunsJobs(kLocalLauncher));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

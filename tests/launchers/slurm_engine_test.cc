// Runs against the Slurm of scripts/slurm_up.sh, which ctest starts for these tests (SLURM_CONF).
#include "server/launchers/slurm/slurm_engine.h"

#include <gmock/gmock.h>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"
#include "tests/events/wait_for.h"
#include "tests/launchers/job_engine_conformance.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

std::unique_ptr<JobEngine> MakeSlurm(const std::string& /*folder*/) {
  return std::make_unique<SlurmEngine>(SlurmEngineOptions{.hopeless_limit = Seconds(1)});
}

INSTANTIATE_TEST_SUITE_P(Slurm, JobEngineTest,
                         testing::Values(EngineCase{
                             .make = MakeSlurm, .node_count = 2, .impossible = {.node_count = 9}}));

class SlurmEngineTest : public JobEngineTest {};

INSTANTIATE_TEST_SUITE_P(Slurm, SlurmEngineTest, testing::Values(EngineCase{.make = MakeSlurm}));

TEST_P(SlurmEngineTest, ShowsWhyItWaits) {
  JobSpec all = Script("sleep 600");
  all.node_count = 3;
  all.processes_per_node = 4;
  const JobSpec next = Script("true");
  ASSERT_TRUE(engine_->Submit(all).ok());
  Until(JobState::kRunning, all);
  ASSERT_TRUE(engine_->Submit(next).ok());
  // The scheduler runs once a second and says nothing about the job before that.
  EXPECT_TRUE(WaitFor([&] { return Until(JobState::kPending, next).reason == "Resources"; }));
  EXPECT_TRUE(engine_->Cancel(HandleOf(next)).ok());
  EXPECT_EQ(Until(JobState::kEnded, next).end, (JobEnd{.kind = JobEndKind::kCancelled}));
  EXPECT_TRUE(engine_->Cancel(HandleOf(all)).ok());
  Until(JobState::kEnded, all);
}

TEST_P(SlurmEngineTest, ExcludedNodesAreNotUsed) {
  JobSpec spec = Script("true");
  spec.excluded_nodes = {"n1", "n3"};
  EXPECT_THAT(Run(spec).nodes, ElementsAre("n2"));
}

TEST_P(SlurmEngineTest, FlagsThatSlurmRefuses) {
  SlurmEngine engine({.sbatch_flags = {"--partition=nowhere"}});
  const auto id = engine.Submit(Script("true"));
  EXPECT_TRUE(absl::IsFailedPrecondition(id.status())) << id.status();
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("Invalid partition"));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

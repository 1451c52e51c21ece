// Runs against fake_kubernetes.py, whose pods are processes of this machine.
#include "server/launchers/kubernetes/kubernetes_engine.h"

#include <gmock/gmock.h>

#include <memory>
#include <string>
#include <utility>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"
#include "tests/launchers/fake_kubernetes.h"
#include "tests/launchers/job_engine_conformance.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::HasSubstr;

// Makes engines that share a cluster with the other engines of the test, told apart by the test's
// folder.
std::unique_ptr<JobEngine> MakeFor(const std::string& job_template, const std::string& queue,
                                   const std::string& folder) {
  static std::string folder_of_cluster;
  static std::unique_ptr<FakeKubernetes> cluster;
  if (folder != folder_of_cluster) {
    folder_of_cluster = folder;
    cluster = std::make_unique<FakeKubernetes>(R"({"kueue": {"most_nodes": 4}})", folder);
  }
  auto engine = KubernetesEngine::Open({.server = cluster->url(),
                                        .name_space = "tests",
                                        .job_template = job_template,
                                        .image = "image",
                                        .queue = queue,
                                        .volume_claim = "shared",
                                        .mount_path = folder,
                                        .hopeless_limit = Seconds(0.3)});
  EXPECT_TRUE(engine.ok()) << engine.status();
  return std::move(*engine);
}

EngineCase CaseOf(const std::string& job_template, const std::string& queue, JobSpec impossible) {
  return {.make = [=](const std::string& folder) { return MakeFor(job_template, queue, folder); },
          .node_count = 2,
          .impossible = std::move(impossible)};
}

INSTANTIATE_TEST_SUITE_P(Job, JobEngineTest,
                         testing::Values(CaseOf("job", "kueue", {.node_count = 9})));
INSTANTIATE_TEST_SUITE_P(Volcano, JobEngineTest,
                         testing::Values(CaseOf("volcano", "",
                                                {.environment = {{"NO_UTF8", "\xff"}}})));

// The other kinds differ only in their data.
class KubernetesKindTest : public JobEngineTest {};

INSTANTIATE_TEST_SUITE_P(Mpi, KubernetesKindTest, testing::Values(CaseOf("mpijob", "kueue", {})));
INSTANTIATE_TEST_SUITE_P(Pytorch, KubernetesKindTest,
                         testing::Values(CaseOf("pytorchjob", "kueue", {})));
INSTANTIATE_TEST_SUITE_P(Trainer, KubernetesKindTest,
                         testing::Values(CaseOf("trainjob", "kueue", {})));

TEST_P(KubernetesKindTest, RunsOnTwoNodes) {
  JobSpec spec = Script("echo $RANK $LOCAL_RANK of $WORLD_SIZE \"$WORDS\"");
  spec.environment = {{"WORDS", "$(RANK) $$ \"two words\""}};
  spec.node_count = 2;
  spec.processes_per_node = 2;
  EXPECT_EQ(Run(spec).end, (JobEnd{.exit_code = 0}));
  for (const char* const line : {"0 0 of 4", "1 1 of 4", "2 0 of 4", "3 1 of 4"}) {
    EXPECT_THAT(Output(spec), HasSubstr(std::string(line) + " $(RANK) $$ \"two words\"\n"));
  }
}

TEST_P(KubernetesKindTest, FailureAndCancel) {
  JobSpec failing = Script("((RANK == 0)) || exit 7; sleep 600");
  failing.node_count = 2;
  EXPECT_EQ(Run(failing).end, (JobEnd{.exit_code = 7}));
  const JobSpec waiting = Script("sleep 600");
  ASSERT_TRUE(engine_->Submit(waiting).ok());
  Until(JobState::kRunning, waiting);
  EXPECT_TRUE(engine_->Cancel(HandleOf(waiting)).ok());
  EXPECT_EQ(Until(JobState::kEnded, waiting).end, (JobEnd{.kind = JobEndKind::kCancelled}));
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

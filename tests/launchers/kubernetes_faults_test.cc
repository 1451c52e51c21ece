// Faults of a cluster, played by fake_kubernetes.py.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <memory>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/kubernetes/http_client.h"
#include "server/launchers/kubernetes/kubernetes_engine.h"
#include "server/tuner/question/kubernetes_options.h"
#include "tests/events/gate.h"
#include "tests/events/wait_for.h"
#include "tests/files/source_folder.h"
#include "tests/launchers/fake_kubernetes.h"
#include "tests/launchers/job_engine_conformance.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr char kJobs[] = "/apis/batch/v1/namespaces/tests/jobs";

// Tests start a cluster with Use.
class KubernetesFaultTest : public JobEngineTest {
 protected:
  KubernetesFaultTest() {
    options_.name_space = "tests";
    options_.image = "image";
    options_.volume_claim = "shared";
    options_.mount_path = folder_;
    options_.hopeless_limit = Seconds(0.3);
  }
  void Use(const std::string& script) {
    cluster_ = std::make_unique<FakeKubernetes>(script, folder_);
    options_.server = cluster_->url();
    Open();
  }
  void Open() {
    auto engine = KubernetesEngine::Open(options_);
    ASSERT_TRUE(engine.ok()) << engine.status();
    engine_ = std::move(*engine);
  }
  [[nodiscard]] std::string Ask(const std::string& method, const std::string& path,
                                const std::string& body) const {
    const auto response =
        SendHttp({.method = method, .url = cluster_->url() + path, .body = body}, {});
    EXPECT_TRUE(response.ok()) << response.status();
    return response.ok() ? response->body : "";
  }
  // Polls until the reason holds the words and returns the status.
  JobStatus UntilReason(const std::string& words, const JobSpec& spec) {
    const JobHandle handle = HandleOf(spec);
    JobStatus status;
    EXPECT_TRUE(WaitFor([&] {
      const auto polled = engine_->Poll({&handle, 1});
      EXPECT_TRUE(polled.ok()) << polled.status();
      if (polled.ok()) status = polled->front();
      return !polled.ok() || status.reason.find(words) != std::string::npos;
    })) << "the reason is '"
        << status.reason << "'; must hold '" << words << "'";
    return status;
  }

  KubernetesOptions options_;
  std::unique_ptr<FakeKubernetes> cluster_;
};

INSTANTIATE_TEST_SUITE_P(Kubernetes, KubernetesFaultTest,
                         testing::Values(EngineCase{
                             .make = [](const std::string&) { return nullptr; }}));

// The certificates are those of tls/README.md.
TEST_P(KubernetesFaultTest, OnlyAServerOfTheAuthorityIsTalkedTo) {
  const std::string folder = SourceFolder() / "tests/launchers/tls/";
  const auto script = [&](const std::string& name) {
    return fmt::format(R"({{"tls": {{"certificate": "{0}{1}.pem", "key": "{0}{1}.key"}}}})", folder,
                       name);
  };
  options_.ca_file = folder + "authority.pem";
  Use(script("server"));
  EXPECT_EQ(Run(Script("true")).end, (JobEnd{.kind = JobEndKind::kExited, .exit_code = 0}));
  options_.ca_file = folder + "other.pem";
  Open();
  const auto stranger = engine_->Submit(Script("true"));
  EXPECT_TRUE(absl::IsUnavailable(stranger.status())) << stranger.status();
  EXPECT_THAT(std::string(stranger.status().message()), HasSubstr("certificate"));
  options_.ca_file = folder + "authority.pem";
  Use(script("elsewhere"));
  const auto host = engine_->Submit(Script("true"));
  EXPECT_TRUE(absl::IsUnavailable(host.status())) << host.status();
  EXPECT_THAT(std::string(host.status().message()), HasSubstr("127.0.0.1"));
}

struct Refusal {
  std::string fault;  // of the first creation
  absl::StatusCode code;
  std::string message;
};

TEST_P(KubernetesFaultTest, WhatTheServerAnswersToACreation) {
  const Refusal refusals[] = {
      {R"("status": 429, "message": "too many requests")", absl::StatusCode::kUnavailable,
       "create jobs: too many requests (429)"},
      {R"("status": 500)", absl::StatusCode::kUnavailable, "injected (500)"},
      {R"("status": 503)", absl::StatusCode::kUnavailable, "injected (503)"},
      {R"("close": true)", absl::StatusCode::kUnavailable, "POST http://127.0.0.1"},
      {R"("status": 401, "message": "Unauthorized")", absl::StatusCode::kFailedPrecondition,
       "Unauthorized (401)"},
      {R"("status": 403, "message": "jobs.batch is forbidden: exceeded quota: gpus")",
       absl::StatusCode::kFailedPrecondition, "exceeded quota: gpus (403)"},
      {R"("status": 404, "message": "namespaces \"tests\" not found")",
       absl::StatusCode::kFailedPrecondition, "not found (404)"},
      {R"("status": 422)", absl::StatusCode::kFailedPrecondition, "injected (422)"},
  };
  std::string faults;
  for (const Refusal& refusal : refusals) {
    faults +=
        fmt::format(R"({}{{"method": "POST", {}}})", faults.empty() ? "" : ", ", refusal.fault);
  }
  Use(fmt::format(R"({{"faults": [{}]}})", faults));
  const JobSpec spec = Script("true");
  for (const Refusal& refusal : refusals) {
    const auto id = engine_->Submit(spec);
    EXPECT_EQ(id.status().code(), refusal.code) << refusal.fault << id.status();
    EXPECT_THAT(std::string(id.status().message()), HasSubstr(refusal.message));
  }
  EXPECT_EQ(Run(spec).end, (JobEnd{.exit_code = 0}));
}

TEST_P(KubernetesFaultTest, ACreationIsNotAnswered) {
  options_.request_limit = Seconds(2);
  Use(R"({"faults": [{"method": "POST", "hold": true}]})");
  const auto id = engine_->Submit(Script("true"));
  EXPECT_TRUE(absl::IsUnavailable(id.status())) << id.status();
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("timed out"));
}

TEST_P(KubernetesFaultTest, TheAnswerToACreationIsLost) {
  Use(R"({"faults": [{"method": "POST", "apply": true, "close": true}]})");
  const JobSpec spec = Script("echo once");
  EXPECT_TRUE(absl::IsUnavailable(engine_->Submit(spec).status()));
  const std::string uid = Until(JobState::kPending, spec).external_id;
  EXPECT_NE(uid, "");
  EXPECT_EQ(Run(spec).external_id, uid);
  EXPECT_EQ(Output(spec), "once\n");
}

TEST_P(KubernetesFaultTest, NameOfSomebodyElse) {
  Use("{}");
  const JobSpec spec = Script("true");
  EXPECT_THAT(Ask("POST", "/apis/batch/v1/namespaces/tests/jobs",
                  fmt::format(R"({{"kind": "Job", "metadata": {{"name": "{}"}}, "spec":
                                  {{"completions": 0}}}})",
                              spec.attempt_id)),
              HasSubstr("uid"));
  const auto id = engine_->Submit(spec);
  EXPECT_TRUE(absl::IsFailedPrecondition(id.status())) << id.status();
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("an object of this name exists"));
}

TEST_P(KubernetesFaultTest, ListsThatFailSayNothingOfAJob) {
  Use(R"({"faults": [{"method": "GET", "path": "jobs", "status": 500},
                     {"method": "GET", "path": "jobs", "status": 429},
                     {"method": "GET", "path": "jobs", "status": 403},
                     {"method": "GET", "path": "jobs", "status": 200},
                     {"method": "GET", "path": "pods", "status": 500},
                     {"method": "GET", "path": "pods", "close": true}]})");
  const JobSpec spec = Script("exit 3");
  const JobHandle handle = HandleOf(spec);
  ASSERT_TRUE(engine_->Submit(spec).ok());
  for (int i = 0; i < 6; ++i) {
    EXPECT_TRUE(absl::IsUnavailable(engine_->Poll({&handle, 1}).status())) << i;
  }
  EXPECT_EQ(Until(JobState::kEnded, spec).end, (JobEnd{.exit_code = 3}));
}

TEST_P(KubernetesFaultTest, NobodyListens) {
  Use("{}");
  cluster_.reset();
  const JobSpec spec = Script("true");
  const JobHandle handle = HandleOf(spec);
  EXPECT_TRUE(absl::IsUnavailable(engine_->Submit(spec).status()));
  EXPECT_TRUE(absl::IsUnavailable(engine_->Poll({&handle, 1}).status()));
  EXPECT_TRUE(absl::IsUnavailable(engine_->Cancel(handle)));
}

TEST_P(KubernetesFaultTest, ShowsWhyAPodHasNoNode) {
  Use(R"({"pods": {"all": {"place": false, "start": false, "status": {"conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
         "message": "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."}]}}}})");
  const JobSpec spec = Script("true");
  ASSERT_TRUE(engine_->Submit(spec).ok());
  const JobStatus status = UntilReason("Insufficient nvidia.com/gpu", spec);
  EXPECT_EQ(status.state, JobState::kPending);
  EXPECT_EQ(status.reason,
            "Unschedulable: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu.");
  // The pod may still get a node.
  const int looks = std::stoi(Ask("GET", "/rounds", "")) + 25;
  EXPECT_TRUE(WaitFor([&] { return std::stoi(Ask("GET", "/rounds", "")) >= looks; }));
  EXPECT_EQ(Until(JobState::kPending, spec).state, JobState::kPending);
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  EXPECT_EQ(Until(JobState::kEnded, spec).end, (JobEnd{.kind = JobEndKind::kCancelled}));
}

struct PodCase {
  std::string name;
  std::string pod;  // what happens to pod 0
  JobEndKind end;
  std::string reason;
};

const PodCase kPodCases[] = {
    {"NoImage",
     R"({"start": false, "status": {"containerStatuses": [{"state": {"waiting":
        {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"image\""}}}]}})",
     JobEndKind::kRefused, "ImagePullBackOff: Back-off pulling image \"image\""},
    {"NoSuchSecret",
     R"({"start": false, "status": {"containerStatuses": [{"state": {"waiting":
        {"reason": "CreateContainerConfigError", "message": "secret \"x\" not found"}}}]}})",
     JobEndKind::kRefused, "CreateContainerConfigError: secret \"x\" not found"},
    {"OutOfMemory",
     R"({"status": {"phase": "Failed", "containerStatuses": [{"state": {"terminated":
        {"exitCode": 137, "reason": "OOMKilled"}}}]}})",
     JobEndKind::kOutOfMemory, "OOMKilled"},
    {"Evicted",
     R"({"status": {"phase": "Failed", "reason": "Evicted",
        "message": "The node was low on resource: memory."}})",
     JobEndKind::kNodeFailure, "Evicted: The node was low on resource: memory."},
    {"Preempted",
     R"({"status": {"phase": "Failed", "conditions": [{"type": "DisruptionTarget",
        "status": "True", "reason": "PreemptionByScheduler", "message": "preempted"}]}})",
     JobEndKind::kPreempted, "PreemptionByScheduler: preempted"},
    // Its pod cannot end, because nobody is there to report it.
    {"NodeLost",
     R"({"keep": true, "status": {"conditions": [{"type": "DisruptionTarget",
        "status": "True", "reason": "DeletionByTaintManager", "message": "node n1 is gone"}]}})",
     JobEndKind::kNodeFailure, "DeletionByTaintManager: node n1 is gone"},
};

TEST_P(KubernetesFaultTest, WhatBecomesOfAPod) {
  for (const PodCase& c : kPodCases) {
    SCOPED_TRACE(c.name);
    options_.queue = "gpus";
    Use(fmt::format(R"({{"kueue": {{}}, "pods": {{"0": {}}}}})", c.pod));
    JobSpec spec = Script("sleep 600");
    spec.node_count = 2;
    const JobStatus status = Run(spec);
    EXPECT_EQ(status.end, (JobEnd{.kind = c.end}));
    EXPECT_THAT(status.reason, HasSubstr(c.reason));
    EXPECT_FALSE(status.nodes.empty());
  }
}

TEST_P(KubernetesFaultTest, DeletedByHand) {
  Use("{}");
  const JobSpec spec = Script("sleep 600");
  ASSERT_TRUE(engine_->Submit(spec).ok());
  Until(JobState::kRunning, spec);
  EXPECT_THAT(Ask("DELETE", std::string(kJobs) + "/" + spec.attempt_id,
                  R"({"propagationPolicy": "Foreground"})"),
              HasSubstr("deletionTimestamp"));
  const JobStatus status = Until(JobState::kEnded, spec);
  EXPECT_EQ(status.end, (JobEnd{.kind = JobEndKind::kCancelled}));
  EXPECT_EQ(status.reason, "deleted from outside");
}

// Another process does not know of it.
TEST_P(KubernetesFaultTest, WhatIsDeletedIsForgotten) {
  Use("{}");
  const JobSpec spec = Script("sleep 600");
  ASSERT_TRUE(engine_->Submit(spec).ok());
  Until(JobState::kRunning, spec);
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  Until(JobState::kEnded, spec);
  Open();
  EXPECT_EQ(Until(JobState::kUnknown, spec).state, JobState::kUnknown);
}

TEST_P(KubernetesFaultTest, CancelOfWhatHasEndedLeavesIt) {
  Use("{}");
  const JobSpec spec = Script("exit 3");
  Run(spec);
  Open();
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  Open();
  EXPECT_EQ(Until(JobState::kEnded, spec).end, (JobEnd{.exit_code = 3}));
}

TEST_P(KubernetesFaultTest, PodsThatNeverGo) {
  options_.deletion_limit = Seconds(600);
  Use(R"({"stuck": true})");
  const JobSpec spec = Script("sleep 600");
  ASSERT_TRUE(engine_->Submit(spec).ok());
  Until(JobState::kRunning, spec);
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  EXPECT_EQ(UntilReason("is being deleted", spec).state, JobState::kRunning);
  options_.deletion_limit = Seconds(1e-3);  // another process waits no longer
  Open();
  EXPECT_TRUE(engine_->Cancel(HandleOf(spec)).ok());
  const JobStatus status = Until(JobState::kEnded, spec);
  EXPECT_EQ(status.end, (JobEnd{.kind = JobEndKind::kCancelled}));
  EXPECT_THAT(status.reason, HasSubstr("still exist"));
}

TEST_P(KubernetesFaultTest, WaitsForKueue) {
  options_.queue = "gpus";
  Use(R"({"kueue": {"admit": false}})");
  const JobSpec spec = Script("exit 3");
  ASSERT_TRUE(engine_->Submit(spec).ok());
  EXPECT_EQ(UntilReason("insufficient unused quota", spec).state, JobState::kPending);
  EXPECT_THAT(Ask("PATCH", "/script", R"({"kueue": {"admit": true}})"), HasSubstr("admit"));
  EXPECT_EQ(Until(JobState::kEnded, spec).end, (JobEnd{.exit_code = 3}));
}

TEST_P(KubernetesFaultTest, PreemptedByKueue) {
  options_.queue = "gpus";
  options_.hopeless_limit = Seconds(600);  // it would begin again before
  Use(R"({"kueue": {}})");
  const JobSpec spec = Script("sleep 600");
  ASSERT_TRUE(engine_->Submit(spec).ok());
  Until(JobState::kRunning, spec);
  EXPECT_THAT(Ask("PATCH", "/script", R"({"kueue": {"preempt": true}})"), HasSubstr("preempt"));
  const JobStatus status = Until(JobState::kEnded, spec);
  EXPECT_EQ(status.end, (JobEnd{.kind = JobEndKind::kPreempted}));
  EXPECT_EQ(status.reason, "Preempted: Preempted to accommodate a workload");
}

TEST_P(KubernetesFaultTest, SeveralNodesWithoutAGangScheduler) {
  Use("{}");
  JobSpec spec = Script("true");
  spec.node_count = 2;
  const auto id = engine_->Submit(spec);
  EXPECT_TRUE(absl::IsFailedPrecondition(id.status()));
  EXPECT_THAT(std::string(id.status().message()), HasSubstr("node_count = 2; must be 1 if"));
  EXPECT_EQ(Ask("GET", "/requests", ""), "[]");
}

TEST_P(KubernetesFaultTest, OnSeveralNodesPodsFindEachOther) {
  options_.queue = "gpus";
  Use(R"({"kueue": {}})");
  const std::string services = "/api/v1/namespaces/tests/services";
  EXPECT_EQ(Run(Script("true")).end, (JobEnd{.exit_code = 0}));
  EXPECT_THAT(Ask("GET", services, ""), HasSubstr(R"("items": [])"));
  for (int i = 0; i < 2; ++i) {
    JobSpec spec = Script("echo $MASTER_ADDR");
    spec.node_count = 2;
    EXPECT_EQ(Run(spec).end, (JobEnd{.exit_code = 0}));
    EXPECT_THAT(Output(spec), HasSubstr(spec.attempt_id + "-0.meshwright\n"));
  }
  EXPECT_THAT(Ask("GET", services + "/meshwright", ""), HasSubstr("publishNotReadyAddresses"));
}

// This is as for jobs that Kueue suspends.
TEST_P(KubernetesFaultTest, NodesOfPodsThatAreGone) {
  Use("{}");
  const JobSpec spec = Script("sleep 600");
  ASSERT_TRUE(engine_->Submit(spec).ok());
  EXPECT_THAT(Until(JobState::kRunning, spec).nodes, ElementsAre("n1"));
  EXPECT_THAT(
      Ask("PATCH", std::string(kJobs) + "/" + spec.attempt_id, R"({"spec": {"suspend": true}})"),
      HasSubstr("uid"));
  UntilReason("JobSuspended", spec);
  EXPECT_TRUE(WaitFor([&] {
    return Ask("GET", "/api/v1/namespaces/tests/pods", "").find(R"("items": [])") !=
           std::string::npos;
  }));
  EXPECT_THAT(Until(JobState::kPending, spec).nodes, ElementsAre("n1"));
}

TEST_P(KubernetesFaultTest, ProcessesMayCleanUp) {
  Use("{}");
  const Gate trapped(folder_ + "/trapped");
  JobSpec spec = Script(fmt::format(
      "if ((RANK)); then {}; exit 7; fi; trap 'echo clean; exit 0' TERM; {}; sleep 600 & wait",
      trapped.WaitCommand(), trapped.OpenCommand()));
  spec.processes_per_node = 2;
  EXPECT_EQ(Run(spec).end, (JobEnd{.exit_code = 7}));
  EXPECT_EQ(Output(spec), "clean\n");
}

TEST_P(KubernetesFaultTest, OneListOfEachKind) {
  options_.queue = "gpus";
  Use(R"({"kueue": {}})");
  std::vector<JobHandle> handles;
  for (int i = 0; i < 3; ++i) {
    const JobSpec spec = Script("sleep 600");
    ASSERT_TRUE(engine_->Submit(spec).ok());
    handles.push_back(HandleOf(spec));
  }
  ASSERT_TRUE(engine_->Poll(handles).ok());
  EXPECT_EQ(Ask("GET", "/requests", ""),
            fmt::format(R"([["POST", "{0}"], ["POST", "{0}"], ["POST", "{0}"], ["GET", "{0}"], )"
                        R"(["GET", "/api/v1/namespaces/tests/pods"], )"
                        R"(["GET", "/apis/kueue.x-k8s.io/v1beta1/namespaces/tests/workloads"]])",
                        kJobs));
}

TEST_P(KubernetesFaultTest, TimeLimit) {
  Use("{}");
  JobSpec spec = Script("sleep 600");
  spec.time_limit = Seconds(0.5);
  EXPECT_EQ(Run(spec).end, (JobEnd{.kind = JobEndKind::kTimeLimit}));
}

TEST_P(KubernetesFaultTest, ExcludedNodesAreNotUsed) {
  Use("{}");
  JobSpec spec = Script("true");
  spec.excluded_nodes = {"n1", "n3"};
  EXPECT_THAT(Run(spec).nodes, ElementsAre("n2"));
}

TEST_P(KubernetesFaultTest, FolderThatThePodDoesNotHave) {
  Use("{}");
  JobSpec spec = Script("true");
  spec.folder = folder_ + "/none";
  // This is as for a program that cannot be started: the site's fault.
  EXPECT_EQ(Run(spec).end, (JobEnd{.exit_code = 126}));
  spec = Script("true");
  spec.folder = "/elsewhere";
  EXPECT_THAT(std::string(engine_->Submit(spec).status().message()),
              HasSubstr("folder = '/elsewhere'; must be in '" + folder_));
}

TEST_P(KubernetesFaultTest, TokenIsReadAnew) {
  options_.token_file = folder_ + "/token";
  std::ofstream(options_.token_file) << "old\n";
  Use(R"({"token": "new"})");
  const JobSpec spec = Script("true");
  EXPECT_TRUE(absl::IsFailedPrecondition(engine_->Submit(spec).status()));
  std::ofstream(options_.token_file) << "new\n";
  EXPECT_EQ(Run(spec).end, (JobEnd{.exit_code = 0}));
}

// A folder can be opened like a file, but reads of it fail.
TEST(HttpClientTest, ATokenFileThatCannotBeRead) {
  for (const std::string path : {"/no/such/file", "/proc"}) {
    const auto response =
        SendHttp({.method = "GET", .url = "http://127.0.0.1:1/"}, {.token_file = path});
    EXPECT_EQ(std::string(response.status().message()),
              fmt::format("the token file {} cannot be read", path));
  }
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

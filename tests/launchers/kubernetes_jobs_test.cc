// Tests objects shaped after the public documentation of the API (Kubernetes 1.31, Kueue 0.14,
// Volcano 1.9); none was recorded on a cluster.
#include "server/launchers/kubernetes/kubernetes_jobs.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search_space/base/units.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/kubernetes/kubernetes_template.h"

namespace meshwright {
namespace MESHWRIGHT_TEST_FILE {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr char kLabel[] = "job-name";

struct PodCase {
  std::string name;
  std::string status;  // of the pod
  JobState state;
  std::string reason;
  std::optional<JobEnd> end = {};
  std::optional<JobEndKind> hopeless = {};
};

void PrintTo(const PodCase& c, std::ostream* out) { *out << c.name; }

std::string Terminated(int code, const std::string& reason) {
  return fmt::format(R"("phase": "Failed", "containerStatuses": [{{"name": "main", "state":
    {{"terminated": {{"exitCode": {}, "reason": "{}", "finishedAt": "2026-11-22T19:00:00Z"}}}}}}])",
                     code, reason);
}

std::string Waiting(const std::string& reason, const std::string& message) {
  return fmt::format(R"("phase": "Pending", "containerStatuses": [{{"name": "main", "state":
    {{"waiting": {{"reason": "{}", "message": "{}"}}}}}}])",
                     reason, message);
}

std::string Disrupted(const std::string& phase, const std::string& reason) {
  return fmt::format(
      R"("phase": "{}", "conditions": [{{"type": "DisruptionTarget", "status": "True",
    "reason": "{}", "message": "why"}}])",
      phase, reason);
}

JobEnd Of(JobEndKind kind) { return {.kind = kind}; }

const PodCase kPodCases[] = {
    {"New", R"("phase": "Pending")", JobState::kPending, ""},
    {"Unschedulable", R"("phase": "Pending", "conditions": [{"type": "PodScheduled",
      "status": "False", "reason": "Unschedulable", "message": "0/4 nodes are available"}])",
     JobState::kPending, "Unschedulable: 0/4 nodes are available"},
    {"Creating", Waiting("ContainerCreating", ""), JobState::kPending, "ContainerCreating"},
    {"ImagePullBackOff",
     Waiting("ImagePullBackOff", "Back-off"),
     JobState::kPending,
     "ImagePullBackOff: Back-off",
     {},
     JobEndKind::kRefused},
    {"ErrImagePull",
     Waiting("ErrImagePull", "404"),
     JobState::kPending,
     "ErrImagePull: 404",
     {},
     JobEndKind::kRefused},
    {"InvalidImageName",
     Waiting("InvalidImageName", "x"),
     JobState::kPending,
     "InvalidImageName: x",
     {},
     JobEndKind::kRefused},
    {"NoConfig",
     Waiting("CreateContainerConfigError", "no secret"),
     JobState::kPending,
     "CreateContainerConfigError: no secret",
     {},
     JobEndKind::kRefused},
    {"Running", R"("phase": "Running")", JobState::kRunning, ""},
    {"RunningOnALostNode",
     R"("phase": "Running", "reason": "NodeLost", "message": "gone")",
     JobState::kRunning,
     "NodeLost: gone",
     {},
     JobEndKind::kNodeFailure},
    {"BeingTakenFromALostNode",
     Disrupted("Running", "DeletionByTaintManager"),
     JobState::kRunning,
     "DeletionByTaintManager: why",
     {},
     JobEndKind::kNodeFailure},
    {"BeingDrained",
     Disrupted("Running", "EvictionByEvictionAPI"),
     JobState::kRunning,
     "EvictionByEvictionAPI: why",
     {},
     JobEndKind::kPreempted},
    {"Succeeded", R"("phase": "Succeeded")", JobState::kEnded, "exit code 0",
     JobEnd{.exit_code = 0}},
    {"Failed", Terminated(7, "Error"), JobState::kEnded, "exit code 7", JobEnd{.exit_code = 7}},
    {"Killed", Terminated(137, "Error"), JobState::kEnded, "exit code 137",
     JobEnd{.exit_code = 137}},
    {"OutOfMemory", Terminated(137, "OOMKilled"), JobState::kEnded, "OOMKilled",
     Of(JobEndKind::kOutOfMemory)},
    {"NoBash", Terminated(128, "StartError"), JobState::kEnded, "StartError",
     Of(JobEndKind::kRefused)},
    {"OwnTimeLimit", Terminated(124, "Error"), JobState::kEnded, "the time limit of the job",
     Of(JobEndKind::kTimeLimit)},
    {"Deadline", Terminated(137, "Error") + R"(, "reason": "DeadlineExceeded")", JobState::kEnded,
     "DeadlineExceeded", Of(JobEndKind::kTimeLimit)},
    // Its image took too long.
    {"DeadlineBeforeItBegan", R"("phase": "Failed", "reason": "DeadlineExceeded")",
     JobState::kEnded, "DeadlineExceeded", Of(JobEndKind::kNodeFailure)},
    {"Evicted", R"("phase": "Failed", "reason": "Evicted", "message": "low on memory")",
     JobState::kEnded, "Evicted: low on memory", Of(JobEndKind::kNodeFailure)},
    {"NodeIsFull", R"("phase": "Failed", "reason": "OutOfnvidia.com/gpu")", JobState::kEnded,
     "OutOfnvidia.com/gpu", Of(JobEndKind::kNodeFailure)},
    {"NodeShutdown", R"("phase": "Failed", "reason": "Terminated", "message": "node shutdown")",
     JobState::kEnded, "Terminated: node shutdown", Of(JobEndKind::kNodeFailure)},
    {"NodeGone", Disrupted("Failed", "DeletionByPodGC"), JobState::kEnded, "DeletionByPodGC: why",
     Of(JobEndKind::kNodeFailure)},
    {"Preempted", Disrupted("Failed", "PreemptionByScheduler"), JobState::kEnded,
     "PreemptionByScheduler: why", Of(JobEndKind::kPreempted)},
    {"FailedWithoutAWord", R"("phase": "Failed")", JobState::kEnded, "", JobEnd{}},
};

std::string PodText(const std::string& job, const std::string& name, const std::string& status) {
  return fmt::format(R"({{"metadata": {{"name": "{}", "labels": {{"job-name": "{}"}}}},
    "spec": {{"nodeName": "node-of-{}"}}, "status": {{{}}}}})",
                     name, job, name, status);
}

std::string List(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return fmt::format(R"({{"kind": "List", "items": [{}]}})", text);
}

class KubernetesPodTest : public testing::TestWithParam<PodCase> {};

TEST_P(KubernetesPodTest, IsRead) {
  const auto pods = ParsePods(List({PodText("a", "a-0", GetParam().status)}), kLabel);
  ASSERT_TRUE(pods.ok()) << pods.status();
  ASSERT_EQ(pods->size(), 1u);
  const KubernetesPod& pod = pods->front();
  EXPECT_EQ(pod.attempt_id, "a");
  EXPECT_EQ(pod.node, "node-of-a-0");
  EXPECT_EQ(pod.state, GetParam().state);
  EXPECT_EQ(pod.reason, GetParam().reason);
  EXPECT_EQ(pod.end, GetParam().end);
  EXPECT_EQ(pod.hopeless, GetParam().hopeless);
}

INSTANTIATE_TEST_SUITE_P(All, KubernetesPodTest, testing::ValuesIn(kPodCases),
                         [](const auto& each) { return each.param.name; });

struct JobCase {
  std::string name;
  std::string kind;  // the template's name
  std::string status;
  std::optional<JobState> state;
  std::string reason;
  std::optional<JobEnd> end = {};
};

void PrintTo(const JobCase& c, std::ostream* out) { *out << c.name; }

std::string True(const std::string& type, const std::string& reason) {
  return fmt::format(R"("conditions": [{{"type": "Other", "status": "True"}},
    {{"type": "{}", "status": "True", "reason": "{}", "message": "m"}}])",
                     type, reason);
}

std::string Phase(const std::string& phase) {
  return fmt::format(R"("state": {{"phase": "{}"}})", phase);
}

const JobCase kJobCases[] = {
    {"New", "job", "", {}, ""},
    {"Running", "job", R"("active": 2, "ready": 2, "startTime": "2026-11-22T19:00:00Z")", {}, ""},
    {"NotSuspendedAnyMore",
     "job",
     R"("conditions": [{"type": "Suspended", "status": "False"}])",
     {},
     ""},
    {"Suspended", "job", True("Suspended", "JobSuspended"), JobState::kPending, "JobSuspended: m"},
    {"Complete", "job", True("Complete", "CompletionsReached"), JobState::kEnded,
     "CompletionsReached: m", JobEnd{.exit_code = 0}},
    {"Failed", "job", True("Failed", "BackoffLimitExceeded"), JobState::kEnded,
     "BackoffLimitExceeded: m", JobEnd{}},
    {"Disrupted", "job", True("Failed", "PodFailurePolicy"), JobState::kEnded,
     "PodFailurePolicy: m", Of(JobEndKind::kPreempted)},
    {"Deadline", "job", True("Failed", "DeadlineExceeded"), JobState::kEnded, "DeadlineExceeded: m",
     Of(JobEndKind::kTimeLimit)},
    // Its pods still end.
    {"WillFail", "job", True("FailureTarget", "BackoffLimitExceeded"), {}, ""},
    {"VolcanoPending", "volcano", Phase("Pending"), JobState::kPending, "Pending"},
    {"VolcanoRunning", "volcano", Phase("Running"), {}, ""},
    {"VolcanoCompleted", "volcano", Phase("Completed"), JobState::kEnded, "Completed",
     JobEnd{.exit_code = 0}},
    {"VolcanoTerminated", "volcano", Phase("Terminated"), JobState::kEnded, "Terminated", JobEnd{}},
    {"VolcanoAborted", "volcano", Phase("Aborted"), JobState::kEnded, "Aborted",
     Of(JobEndKind::kCancelled)},
    {"PytorchRunning", "pytorchjob", True("Running", "PyTorchJobRunning"), {}, ""},
    {"PytorchSucceeded", "pytorchjob", True("Succeeded", "PyTorchJobSucceeded"), JobState::kEnded,
     "PyTorchJobSucceeded: m", JobEnd{.exit_code = 0}},
    {"PytorchFailed", "pytorchjob", True("Failed", "PyTorchJobFailed"), JobState::kEnded,
     "PyTorchJobFailed: m", JobEnd{}},
    // Its workers run before its launcher.
    {"MpiCreated", "mpijob", True("Created", "MPIJobCreated"), JobState::kPending,
     "MPIJobCreated: m"},
    {"MpiRunning", "mpijob", True("Running", "MPIJobRunning"), JobState::kRunning,
     "MPIJobRunning: m"},
    {"MpiFailed", "mpijob", True("Failed", "BackoffLimitExceeded"), JobState::kEnded,
     "BackoffLimitExceeded: m", JobEnd{}},
    {"TrainerComplete", "trainjob", True("Complete", "JobsCompleted"), JobState::kEnded,
     "JobsCompleted: m", JobEnd{.exit_code = 0}},
    {"TrainerWithoutRuntime", "trainjob", True("Failed", "TrainingRuntimeNotSupported"),
     JobState::kEnded, "TrainingRuntimeNotSupported: m", Of(JobEndKind::kRefused)},
};

class KubernetesJobTest : public testing::TestWithParam<JobCase> {};

TEST_P(KubernetesJobTest, IsRead) {
  const auto job_template = LoadKubernetesTemplate(GetParam().kind);
  ASSERT_TRUE(job_template.ok()) << job_template.status();
  const std::string text = fmt::format(
      R"({{"metadata": {{"name": "a", "uid": "u1", "labels": {{"meshwright.io/attempt": "a"}}}},
          "status": {{{}}}}})",
      GetParam().status);
  const auto jobs = ParseJobs(List({text}), *job_template);
  ASSERT_TRUE(jobs.ok()) << jobs.status();
  ASSERT_EQ(jobs->size(), 1u);
  const KubernetesJob& job = jobs->front();
  EXPECT_EQ(job.attempt_id, "a");
  EXPECT_EQ(job.uid, "u1");
  EXPECT_EQ(job.state, GetParam().state);
  EXPECT_EQ(job.reason, GetParam().reason);
  EXPECT_EQ(job.end, GetParam().end);
  EXPECT_FALSE(job.is_going);
}

INSTANTIATE_TEST_SUITE_P(All, KubernetesJobTest, testing::ValuesIn(kJobCases),
                         [](const auto& each) { return each.param.name; });

KubernetesPod Ended(const std::string& name, JobEnd end, const std::string& time) {
  return {.name = name,
          .node = "of-" + name,
          .state = JobState::kEnded,
          .reason = "r",
          .end = end,
          .end_time = time};
}

KubernetesJob FailedJob(JobEnd end = {}) {
  return {.uid = "u", .reason = "job", .state = JobState::kEnded, .end = end};
}

TEST(KubernetesViewTest, ThePodThatFailedFirstIsTheCause) {
  const KubernetesPod pods[] = {Ended("a", {.exit_code = 1}, "2026-11-22T19:00:05Z"),
                                Ended("b", {.exit_code = 7}, "2026-11-22T19:00:01Z"),
                                Ended("c", {.exit_code = 0}, "2026-11-22T19:00:00Z")};
  const JobStatus status = ViewOf(FailedJob(), pods, nullptr).status;
  EXPECT_EQ(status.end, (JobEnd{.exit_code = 7}));
  EXPECT_EQ(status.reason, "b: r");
  EXPECT_THAT(status.nodes, ElementsAre("of-a", "of-b", "of-c"));
}

TEST(KubernetesViewTest, PodsThatWereOnlyEndedAreNoCause) {
  const KubernetesPod pods[] = {Ended("a", {.exit_code = 143}, "2026-11-22T19:00:00Z"),
                                Ended("b", {.exit_code = 7}, "2026-11-22T19:00:00Z")};
  EXPECT_EQ(ViewOf(FailedJob(), pods, nullptr).status.end, (JobEnd{.exit_code = 7}));
}

// The others fail first, because they cannot reach it.
TEST(KubernetesViewTest, WhatTheClusterDidComesFirst) {
  const KubernetesPod pods[] = {
      Ended("a", {.exit_code = 1}, "2026-11-22T19:00:00Z"),
      Ended("b", {.kind = JobEndKind::kNodeFailure}, "2026-11-22T19:05:00Z")};
  EXPECT_EQ(ViewOf(FailedJob(), pods, nullptr).status.end, Of(JobEndKind::kNodeFailure));
}

// The pod that was preempted may be gone.
TEST(KubernetesViewTest, TheJobTellsWhatNoPodDoes) {
  const KubernetesPod pods[] = {Ended("a", {.exit_code = 1}, "2026-11-22T19:00:00Z")};
  const KubernetesJob job = FailedJob({.kind = JobEndKind::kPreempted});
  EXPECT_EQ(ViewOf(job, pods, nullptr).status.end, Of(JobEndKind::kPreempted));
  EXPECT_EQ(ViewOf(job, pods, nullptr).status.reason, "job");
  EXPECT_EQ(ViewOf(FailedJob(), {}, nullptr).status.end, JobEnd{});
}

TEST(KubernetesViewTest, RanFromItsFirstStartToItsLastEnd) {
  KubernetesPod pods[] = {Ended("a", {.exit_code = 1}, "2026-11-22T19:00:05Z"),
                          Ended("b", {.exit_code = 143}, "2026-11-22T19:01:10Z"),
                          Ended("c", {.exit_code = 143}, "")};
  EXPECT_FALSE(ViewOf(FailedJob(), pods, nullptr).status.run_time.has_value());
  pods[0].start_time = "2026-11-22T18:59:50Z";
  pods[1].start_time = "2026-11-22T19:00:00Z";
  EXPECT_EQ(ViewOf(FailedJob(), pods, nullptr).status.run_time, Seconds(80));  // 10 + 60 + 10
  pods[0].start_time = "a time";
  pods[1].start_time = "another";
  EXPECT_FALSE(ViewOf(FailedJob(), pods, nullptr).status.run_time.has_value());
}

TEST(KubernetesViewTest, RunsWhenAllItsPodsDo) {
  const KubernetesPod running = {.name = "a", .node = "n1", .state = JobState::kRunning};
  const KubernetesPod pending = {.name = "b", .state = JobState::kPending, .reason = "no room"};
  const KubernetesJob job = {.uid = "u"};
  EXPECT_EQ(ViewOf(job, {}, nullptr).status.state, JobState::kPending);
  EXPECT_EQ(ViewOf(job, {}, nullptr).status.reason, "has no pods yet");
  EXPECT_EQ(ViewOf(job, std::vector{running}, nullptr).status.state, JobState::kRunning);
  const JobStatus status = ViewOf(job, std::vector{running, pending}, nullptr).status;
  EXPECT_EQ(status.state, JobState::kPending);
  EXPECT_EQ(status.reason, "no room");
}

// Otherwise a cancelled job would seem to have failed by itself.
TEST(KubernetesViewTest, EndsOfPodsThatAreDeletedAreNotTheJobs) {
  KubernetesJob job = FailedJob();
  job.is_going = true;
  const KubernetesPod pods[] = {Ended("a", {.exit_code = 143}, "2026-11-22T19:00:00Z")};
  EXPECT_EQ(ViewOf(job, pods, nullptr).status.state, JobState::kRunning);
  EXPECT_EQ(ViewOf(job, pods, nullptr).status.reason, "is being deleted");
  job.end = JobEnd{.exit_code = 0};
  EXPECT_EQ(ViewOf(job, pods, nullptr).status.end, (JobEnd{.exit_code = 0}));
}

struct WorkloadCase {
  std::string name;
  std::string conditions;
  std::string reason;
  std::optional<JobEndKind> hopeless = {};
  bool is_urgent = false;
};

const WorkloadCase kWorkloads[] = {
    {"Waits", R"({"type": "QuotaReserved", "status": "False", "reason": "Pending",
       "message": "insufficient unused quota for nvidia.com/gpu in flavor a, 8 more needed"})",
     "Pending: insufficient unused quota for nvidia.com/gpu in flavor a, 8 more needed"},
    {"NeverFits", R"-({"type": "QuotaReserved", "status": "False", "reason": "Pending",
       "message": "insufficient quota in flavor a, request > maximum capacity (16 > 8)"})-",
     "Pending: insufficient quota in flavor a, request > maximum capacity (16 > 8)",
     JobEndKind::kRefused},
    {"Preempted", R"({"type": "QuotaReserved", "status": "False", "reason": "Pending",
       "message": "x"}, {"type": "Evicted", "status": "True", "reason": "Preempted",
       "message": "to make room"})",
     "Preempted: to make room", JobEndKind::kPreempted, true},
    {"BeginsAnew", R"({"type": "QuotaReserved", "status": "False", "reason": "Pending",
       "message": "x"}, {"type": "Evicted", "status": "True", "reason": "PodsReadyTimeout",
       "message": "y"})",
     "Pending: x"},
    {"Admitted", R"({"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"},
       {"type": "Admitted", "status": "True", "reason": "Admitted"})",
     "job"},
};

TEST(KubernetesViewTest, Workloads) {
  for (const WorkloadCase& c : kWorkloads) {
    SCOPED_TRACE(c.name);
    const auto workloads = ParseWorkloads(fmt::format(
        R"({{"items": [{{"metadata": {{"labels": {{"kueue.x-k8s.io/job-uid": "u"}}}},
            "status": {{"conditions": [{}]}}}}]}})",
        c.conditions));
    ASSERT_TRUE(workloads.ok() && workloads->size() == 1) << workloads.status();
    EXPECT_EQ(workloads->front().job_uid, "u");
    const KubernetesJob job = {.uid = "u", .reason = "job", .state = JobState::kPending};
    const KubernetesView view = ViewOf(job, {}, &workloads->front());
    EXPECT_EQ(view.status.state, JobState::kPending);
    EXPECT_EQ(view.status.reason, c.reason);
    EXPECT_EQ(view.hopeless, c.hopeless);
    EXPECT_EQ(view.is_urgent, c.is_urgent);
  }
}

TEST(KubernetesJobsTest, AnswersThatAreNoLists) {
  for (const char* const text :
       {"", "<html>busy</html>", "[]", "{}", R"({"items": 3})", R"({"items": null})", "\xff\xfe"}) {
    EXPECT_TRUE(absl::IsUnavailable(ParsePods(text, kLabel).status())) << text;
  }
}

TEST(KubernetesJobsTest, ObjectsThatAreNotAsTheyShouldBe) {
  const auto pods = ParsePods(
      R"({"items": [{}, 3, null, {"metadata": {"labels": {"job-name": 3}}},
          {"metadata": {"labels": {"job-name": "a"}}, "status": {"phase": 3, "conditions": 7,
           "containerStatuses": {"state": 1}}}]})",
      kLabel);
  ASSERT_TRUE(pods.ok()) << pods.status();
  ASSERT_EQ(pods->size(), 1u);
  EXPECT_EQ(pods->front().state, JobState::kPending);
  EXPECT_THAT(ParseJobs(R"({"items": []})", {}).value(), IsEmpty());
  EXPECT_EQ(ParseJobs(R"({"items": [{}, "text"]})", {}).value().size(), 2u);
}

TEST(KubernetesJobsTest, MessagesOfErrors) {
  EXPECT_EQ(MessageOf(R"({"kind": "Status", "message": "exceeded quota", "code": 403})"),
            "exceeded quota");
  EXPECT_EQ(MessageOf("<html>"), "<html>");
}

}  // namespace MESHWRIGHT_TEST_FILE
}  // namespace meshwright

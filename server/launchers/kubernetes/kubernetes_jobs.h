#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/kubernetes/kubernetes_template.h"

namespace meshwright {

// What the API server answers, read. Words of reasons: the documentation of Kubernetes 1.31 ("Pod
// Lifecycle", "Disruptions", "Jobs") and of Kueue 0.14 ("Workload").

struct KubernetesJob {
  std::string attempt_id = {};
  std::string uid = {};
  std::string reason = {};
  // What its status says; absent: nothing, its pods tell.
  std::optional<JobState> state = {};
  std::optional<JobEnd> end = {};  // with kEnded
  bool is_going = false;           // deleted, but something of it is still there
};

struct KubernetesPod {
  std::string attempt_id = {};
  std::string name = {};
  std::string node = {};  // empty: not placed yet
  JobState state = JobState::kPending;
  std::string reason = {};
  std::optional<JobEnd> end = {};  // with kEnded
  // RFC 3339 in UTC, so that texts compare as times.
  std::string start_time = {};
  std::string end_time = {};
  // That it waits for what will not come, or is on a node that is lost.
  std::optional<JobEndKind> hopeless = {};
};

// On every workload of Kueue: the uid of its job.
inline constexpr std::string_view kJobUidLabel = "kueue.x-k8s.io/job-uid";

// Kueue's view of a job.
struct KubernetesWorkload {
  std::string job_uid = {};
  std::string reason = {};
  bool is_admitted = false;
  bool is_preempted = false;  // it would begin again
  bool is_hopeless = false;   // asks for more than there is
};

// Of the answers to lists. UNAVAILABLE for what is none, such as a proxy's page.
absl::StatusOr<std::vector<KubernetesJob>> ParseJobs(const std::string& text,
                                                     const KubernetesTemplate& job_template);
absl::StatusOr<std::vector<KubernetesPod>> ParsePods(const std::string& text,
                                                     const std::string& pod_label);
absl::StatusOr<std::vector<KubernetesWorkload>> ParseWorkloads(const std::string& text);

// Of one object: empty when it has none. Then what an answer says is wrong, in the server's words.
std::string UidOf(const std::string& text);
std::string AttemptOf(const std::string& text);
std::string MessageOf(const std::string& text);

struct KubernetesView {
  JobStatus status = {};
  // How the job will end, since it cannot go on by itself.
  std::optional<JobEndKind> hopeless = {};
  bool is_urgent = false;  // else it may yet pass
};

// A job with its pods, and with its workload where Kueue has one.
KubernetesView ViewOf(const KubernetesJob& job, std::span<const KubernetesPod> pods,
                      const KubernetesWorkload* workload);

}  // namespace meshwright

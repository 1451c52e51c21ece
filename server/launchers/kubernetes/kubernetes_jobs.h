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

// Parsed answers of the API server. The reasons are those in the documentation of Kubernetes 1.31
// ("Pod Lifecycle", "Disruptions", "Jobs") and of Kueue 0.14 ("Workload").

struct KubernetesJob {
  std::string attempt_id = {};
  std::string uid = {};
  std::string reason = {};
  // The state by the job's own status; absent if only its pods tell.
  std::optional<JobState> state = {};
  std::optional<JobEnd> end = {};  // with kEnded
  bool is_going = false;           // deleted, but some of it is still there
};

struct KubernetesPod {
  std::string attempt_id = {};
  std::string name = {};
  std::string node = {};  // empty until it is placed
  JobState state = JobState::kPending;
  std::string reason = {};
  std::optional<JobEnd> end = {};  // with kEnded
  // RFC 3339 in UTC, so that texts compare as times.
  std::string start_time = {};
  std::string end_time = {};
  // Set if it waits for something that will not come, or is on a lost node.
  std::optional<JobEndKind> hopeless = {};
};

// The label of every Kueue workload that holds the uid of its job.
inline constexpr std::string_view kJobUidLabel = "kueue.x-k8s.io/job-uid";

// A job as Kueue sees it.
struct KubernetesWorkload {
  std::string job_uid = {};
  std::string reason = {};
  bool is_admitted = false;
  bool is_preempted = false;  // it would begin again
  bool is_hopeless = false;   // it requests more than there is
};

// Parse answers to lists. UNAVAILABLE if the text is none, such as a proxy's page.
absl::StatusOr<std::vector<KubernetesJob>> ParseJobs(const std::string& text,
                                                     const KubernetesTemplate& job_template);
absl::StatusOr<std::vector<KubernetesPod>> ParsePods(const std::string& text,
                                                     const std::string& pod_label);
absl::StatusOr<std::vector<KubernetesWorkload>> ParseWorkloads(const std::string& text);

// The first two read the uid and the attempt of one object; empty if it has none. The last reads
// the error of an answer, in the server's words.
std::string UidOf(const std::string& text);
std::string AttemptOf(const std::string& text);
std::string MessageOf(const std::string& text);

struct KubernetesView {
  JobStatus status = {};
  // How the job must end, because it cannot go on by itself.
  std::optional<JobEndKind> hopeless = {};
  bool is_urgent = false;  // otherwise it may still pass
};

// Combines a job with its pods and, if Kueue has one, its workload.
KubernetesView ViewOf(const KubernetesJob& job, std::span<const KubernetesPod> pods,
                      const KubernetesWorkload* workload);

}  // namespace meshwright

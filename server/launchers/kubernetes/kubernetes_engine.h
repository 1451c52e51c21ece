#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/kubernetes/http_client.h"
#include "server/launchers/kubernetes/kubernetes_check.h"
#include "server/launchers/kubernetes/kubernetes_jobs.h"
#include "server/launchers/kubernetes/kubernetes_template.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {

// Kubernetes by its API, with one kind of job that a template describes. A job's name is the
// attempt's id. Each poll is one list of the jobs, one of their pods and, with Kueue, one of its
// workloads; any number of jobs is the same. What this engine has seen of a job it keeps, since the
// cluster forgets what is deleted; to a later process such a job is unknown.
class KubernetesEngine final : public JobEngine {
 public:
  // INVALID_ARGUMENT that names every bad field of the options, or of the template.
  static absl::StatusOr<std::unique_ptr<KubernetesEngine>> Open(KubernetesOptions options);

  // Of valid options and the template that they name.
  KubernetesEngine(KubernetesOptions options, KubernetesTemplate job_template)
      : options_(std::move(options)), template_(std::move(job_template)) {}

  // A job whose attempt_id was submitted before is that one.
  absl::StatusOr<std::string> Submit(const JobSpec& spec) override;
  // Also deletes jobs that cannot go on.
  absl::StatusOr<std::vector<JobStatus>> Poll(std::span<const JobHandle> jobs) override;
  absl::Status Cancel(const JobHandle& job) override;

 private:
  using Clock = std::chrono::steady_clock;

  struct Seen {
    JobStatus status = {};
    std::optional<Clock::time_point> hopeless_since = {};
    std::optional<Clock::time_point> cancel_time = {};
  };
  struct Lists {
    std::vector<KubernetesJob> jobs = {};
    std::vector<KubernetesPod> pods = {};
    std::vector<KubernetesWorkload> workloads = {};
  };

  [[nodiscard]] absl::StatusOr<HttpResponse> Send(const std::string& method,
                                                  const std::string& path,
                                                  const std::string& body) const;
  [[nodiscard]] absl::StatusOr<std::string> List(const std::string& path, const std::string& label,
                                                 const std::vector<std::string>& values) const;
  [[nodiscard]] absl::StatusOr<Lists> ListAll(const std::vector<std::string>& attempt_ids) const;
  [[nodiscard]] std::string PathOf(const KubernetesKind& kind) const;
  absl::Status MakeShared(const JobSpec& spec) const;
  [[nodiscard]] absl::StatusOr<std::string> Adopt(const JobSpec& spec) const;
  absl::Status Delete(const std::string& attempt_id) const;
  absl::Status Look(const std::vector<std::string>& attempt_ids);
  absl::Status Note(const KubernetesJob& job, const Lists& lists);
  void NoteGone(const std::string& attempt_id);

  const KubernetesOptions options_;
  const KubernetesTemplate template_;
  std::map<std::string, Seen> seen_;  // by attempt id
};

}  // namespace meshwright

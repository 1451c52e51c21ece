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

// Runs jobs through the API of Kubernetes, as the one kind of object that a template describes. A
// job's name is the attempt's id. Each poll lists the jobs once, their pods once and, with Kueue,
// its workloads once, for any number of jobs. The engine keeps what it has seen of a job, since the
// cluster forgets what is deleted; a later process does not know such a job.
class KubernetesEngine final : public JobEngine {
 public:
  // INVALID_ARGUMENT names every bad field of the options or of the template.
  static absl::StatusOr<std::unique_ptr<KubernetesEngine>> Open(KubernetesOptions options);

  // Takes valid options and the template that they name.
  KubernetesEngine(KubernetesOptions options, KubernetesTemplate job_template)
      : options_(std::move(options)), template_(std::move(job_template)) {}

  // Submitting an attempt_id again returns the first job.
  absl::StatusOr<std::string> Submit(const JobSpec& spec) override;
  // Polling also deletes jobs that cannot go on.
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

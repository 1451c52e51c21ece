#include "server/launchers/job_engines.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "server/launchers/jobs/job_launcher.h"
#include "server/launchers/kubernetes/kubernetes_check.h"
#include "server/launchers/kubernetes/kubernetes_engine.h"
#include "server/launchers/kubernetes/kubernetes_object.h"
#include "server/launchers/kubernetes/kubernetes_template.h"
#include "server/launchers/local/local_engine.h"
#include "server/launchers/local_jobs.h"
#include "server/launchers/slurm/slurm_engine.h"
#include "server/tuner/question/kubernetes_options.h"
#include "server/tuner/question/launcher.h"

namespace meshwright {
namespace {

using EngineOr = absl::StatusOr<std::unique_ptr<JobEngine>>;

// Checks what can be checked of a Kubernetes job before one is submitted.
void CheckKubernetes(const JobTemplate& job, const ClusterSpec& cluster,
                     std::vector<FieldViolation>& found) {
  const int node_count = cluster.pools.front().node_count;
  const std::string site = "trials.job.kubernetes.";
  const KubernetesOptions& options = *job.kubernetes;
  std::vector<FieldViolation> mistakes = MistakesOf(options);
  if (mistakes.empty()) {
    const auto job_template = LoadKubernetesTemplate(options.job_template);
    if (!job_template.ok()) {
      mistakes.push_back({"job_template", std::string(job_template.status().message())});
    } else {
      const JobSpec like = {.attempt_id = "a", .folder = job.folder, .node_count = node_count};
      for (const FieldViolation& mistake : MistakesOf(*job_template, options, like)) {
        const bool is_folder = mistake.field == "folder";
        found.push_back({.field = is_folder ? "trials.job.folder" : "cluster.pools[0].node_count",
                         .description = mistake.description});
      }
    }
  }
  for (const FieldViolation& mistake : mistakes) {
    found.push_back({.field = site + mistake.field, .description = mistake.description});
  }
}

EngineOr OpenLocal(const JobTemplate& job, const ClusterSpec& cluster) {
  return std::make_unique<LocalEngine>(LocalOptionsOf(job, DeviceCount(cluster)));
}

EngineOr OpenSlurm(const JobTemplate& job, const ClusterSpec& /*cluster*/) {
  return std::make_unique<SlurmEngine>(SlurmEngineOptions{.sbatch_flags = job.engine_flags});
}

EngineOr OpenKubernetes(const JobTemplate& job, const ClusterSpec& /*cluster*/) {
  return KubernetesEngine::Open(*job.kubernetes);
}

constexpr JobEngineRow kEngines[] = {
    // On this machine, a job that cannot be found has not begun.
    {.launcher = kLocalLauncher,
     .poll_interval = Seconds(0.2),
     .lost_limit = Seconds(1),
     .check = CheckLocal,
     .open = OpenLocal},
    // Sites ask clients not to query their scheduler more often.
    {.launcher = kSlurmLauncher,
     .poll_interval = Seconds(15),
     .lost_limit = kLostLimit,
     .open = OpenSlurm},
    {.launcher = kKubernetesLauncher,
     .poll_interval = Seconds(5),
     .lost_limit = kLostLimit,
     .check = CheckKubernetes,
     .open = OpenKubernetes},
};

}  // namespace

std::span<const JobEngineRow> JobEngines() { return kEngines; }

const JobEngineRow& JobEngineOf(std::string_view launcher) {
  const auto* const found = std::ranges::find(kEngines, launcher, &JobEngineRow::launcher);
  if (found == std::end(kEngines)) std::abort();
  return *found;
}

}  // namespace meshwright

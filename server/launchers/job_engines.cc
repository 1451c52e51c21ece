#include "server/launchers/job_engines.h"

#include <algorithm>
#include <cstdlib>

#include "server/launchers/jobs/job_launcher.h"
#include "server/launchers/kubernetes/kubernetes_engine.h"
#include "server/launchers/kubernetes/kubernetes_job_check.h"
#include "server/launchers/local/local_engine.h"
#include "server/launchers/local/local_jobs.h"
#include "server/launchers/slurm/slurm_engine.h"
#include "server/tuner/question/launcher_facts.h"

namespace meshwright {
namespace {

using EngineOr = absl::StatusOr<std::unique_ptr<JobEngine>>;

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

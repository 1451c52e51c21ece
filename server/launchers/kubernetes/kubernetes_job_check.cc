#include "server/launchers/kubernetes/kubernetes_job_check.h"

#include <string>

#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/kubernetes/kubernetes_check.h"
#include "server/launchers/kubernetes/kubernetes_object.h"
#include "server/launchers/kubernetes/kubernetes_template.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {

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

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "search_space/base/status.h"
#include "server/launchers/jobs/job_engine.h"
#include "server/launchers/kubernetes/kubernetes_check.h"
#include "server/launchers/kubernetes/kubernetes_template.h"
#include "server/tuner/question/kubernetes_options.h"

namespace meshwright {

// The label of every object of a job that holds its attempt's id.
inline constexpr std::string_view kAttemptLabel = "meshwright.io/attempt";

// Returns true if Kueue admits the jobs.
bool UsesKueue(const KubernetesTemplate& job_template, const KubernetesOptions& options);

// Returns every reason for which the job could never run here, named by the fields attempt_id,
// folder and node_count of the job.
std::vector<FieldViolation> MistakesOf(const KubernetesTemplate& job_template,
                                       const KubernetesOptions& options, const JobSpec& spec);
absl::Status CheckJob(const KubernetesTemplate& job_template, const KubernetesOptions& options,
                      const JobSpec& spec);

// Fills in an object of the template. Members whose placeholder has no value (no queue, no devices)
// are left out; a list in the place of an element contributes its elements.
absl::StatusOr<std::string> FillObject(const std::string& object,
                                       const KubernetesTemplate& job_template,
                                       const KubernetesOptions& options, const JobSpec& spec);

// Fills in the job itself and adds our labels.
absl::StatusOr<std::string> JobObject(const KubernetesTemplate& job_template,
                                      const KubernetesOptions& options, const JobSpec& spec);

}  // namespace meshwright

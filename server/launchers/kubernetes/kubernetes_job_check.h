#pragma once

#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "server/tuner/question/job_template.h"

namespace meshwright {

// Checks what can be checked of a Kubernetes job before one is submitted.
void CheckKubernetes(const JobTemplate& job, const ClusterSpec& cluster,
                     std::vector<FieldViolation>& found);

}  // namespace meshwright

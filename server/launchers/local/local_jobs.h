#pragma once

#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/cluster.h"
#include "server/launchers/local/local_engine.h"
#include "server/tuner/question/job_template.h"

namespace meshwright {

// Checks what jobs need on this machine: one node, a folder for slots, and enough visible devices.
void CheckLocal(const JobTemplate& job, const ClusterSpec& cluster,
                std::vector<FieldViolation>& found);

// Returns the options with which jobs of a request run on a machine with `device_count` devices.
LocalEngineOptions LocalOptionsOf(const JobTemplate& job, int device_count);

}  // namespace meshwright

#pragma once

#include <string>
#include <vector>

#include "search_space/spec/cluster.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// Adds what is doubtful or assumed about the cluster's chips, each chip once.
void AddChipDoubts(const ClusterSpec& cluster, const Workload& workload,
                   std::vector<std::string>& warnings);

}  // namespace meshwright

#pragma once

#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// What stays the same for every plan of a question. The referents outlive it.
struct EstimatorProblem {
  const ModelSpec& model;
  const Workload& workload;
  const FrameworkProfile& profile;
  const ClusterSpec& cluster;
};

}  // namespace meshwright

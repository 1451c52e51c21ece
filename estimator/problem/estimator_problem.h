#pragma once

#include <span>

#include "search_space/spec/cluster.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/model.h"
#include "search_space/spec/workload.h"

namespace meshwright {

struct LegalityRule;  // legality_rule.h

// The part of a question that is the same for every plan. The referents outlive it.
struct EstimatorProblem {
  const ModelSpec& model;
  const Workload& workload;
  const FrameworkProfile& profile;
  const ClusterSpec& cluster;
  std::span<const LegalityRule* const> legality = {};  // what the framework refuses to run
};

}  // namespace meshwright

#pragma once

#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// Every field stated, none with its default: what a conversion forgets shows.
ModelSpec FullModel();
WorkloadRequest FullWorkload();
ClusterRequest FullCluster();
ParallelPlan FullPlan();

// The fields of the message, and of all inside it, that are not set.
std::vector<std::string> UnsetFields(const google::protobuf::Message& message);

}  // namespace meshwright

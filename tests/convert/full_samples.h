#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"
#include "search_space/spec/workload.h"
#include "server/tuner/question/training_run.h"

namespace meshwright {

// These return values with every field stated and different from its default, so that a conversion
// that forgets a field fails.
ModelSpec FullModel();
WorkloadRequest FullWorkload();
ClusterRequest FullCluster();
ParallelPlan FullPlan();
RunCost FullRunCost();
// Its breakdowns have one line each.
Estimate SampleEstimate();

// Returns whether readers expand the field, so that answers never have it.
bool IsShorthand(const google::protobuf::FieldDescriptor& field);

// Returns the fields that are not set in the message and in all messages inside it.
std::vector<std::string> UnsetFields(const google::protobuf::Message& message);

}  // namespace meshwright

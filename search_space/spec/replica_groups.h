#pragma once

#include <string_view>
#include <vector>

#include "search_space/base/status.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Returns what keeps the groups from being replicas of one model: layers that do not add up, a
// layer with several degrees of tensor parallelism, samples that are not those of the batch, and
// settings that need equal replicas. `plan` has replica groups.
std::vector<FieldViolation> CheckReplicaGroups(const ParallelPlan& plan, const ModelSpec& model,
                                               int global_batch_size, std::string_view prefix);

}  // namespace meshwright

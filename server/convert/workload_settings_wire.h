#pragma once

#include "absl/status/status.h"
#include "meshwright/v1/problem.pb.h"
#include "meshwright/v1/service.pb.h"

namespace meshwright {

// States the settings that the question left open with the values that the answer chose for this
// plan. Returns INVALID_ARGUMENT, with every such field, if the plan has a setting or a value that
// this program does not know, as one of a newer server may have.
absl::Status SetSettings(const v1::RankedPlan& plan, v1::Workload& workload);

}  // namespace meshwright

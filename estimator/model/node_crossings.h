#pragma once

#include "estimator/learning/error_sources.h"
#include "estimator/model/stage_runs.h"

namespace meshwright {

// Returns which causes of a step's time are communication of groups that span nodes on the first
// stage's devices.
NodeCrossings NodeCrossingsOf(const StageRuns& stages);

}  // namespace meshwright

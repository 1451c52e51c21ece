#pragma once

#include "estimator/pipeline/operation.h"
#include "estimator/pipeline/program.h"

namespace meshwright {

// Returns the orders of a list schedule: the device that can start first runs its preferred
// operation among those that are ready. It prefers backward to forward to weight gradients, and of
// two directions the one that is behind.
PipelineOrders ListOrders(const PipelineProgram& program);

}  // namespace meshwright

#pragma once

#include <vector>

#include "search_space/base/units.h"

namespace meshwright {

enum class OperationKind { kForward, kBackward, kWeightGradient };

// One micro-batch in one chunk of the model. Chunks of a direction are numbered in the order in
// which a micro-batch goes through them.
struct PipelineOperation {
  OperationKind kind = OperationKind::kForward;
  int direction = 0;  // 1: from the last device to the first (DualPipe, Chimera)
  int chunk = 0;
  int micro_batch = 0;  // counted in its direction
};

// The operations that each device runs, one after the other.
using PipelineOrders = std::vector<std::vector<PipelineOperation>>;

// An operation with the device that runs it, and its times.
struct ScheduledOperation {
  int device = 0;
  OperationKind kind = OperationKind::kForward;
  int direction = 0;
  int chunk = 0;
  int micro_batch = 0;
  Seconds start = Seconds(0);
  Seconds end = Seconds(0);
  bool operator==(const ScheduledOperation&) const = default;
};

}  // namespace meshwright

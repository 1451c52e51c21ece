#pragma once

#include <span>

#include "search_space/base/units.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// The time of one micro-batch on the layers of one pipeline stage.
struct StageWork {
  Seconds forward = Seconds(0);
  Seconds backward = Seconds(0);         // weight gradients included
  Seconds weight_gradient = Seconds(0);  // the part that a zero-bubble schedule does later
};

// The pipeline of one step.
struct PipelineProgram {
  Schedule schedule = Schedule::k1f1b;
  int micro_batches = 1;
  int virtual_stages = 1;        // chunks of a device, for kInterleaved1f1b
  Seconds message = Seconds(0);  // between neighbouring chunks, beside computation
  std::span<const StageWork> stages = {};
};

}  // namespace meshwright

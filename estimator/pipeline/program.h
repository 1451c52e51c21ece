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

// The messages of a micro-batch between two neighbouring stages.
struct Hop {
  Seconds forward = Seconds(0);   // the activation, to the later stage
  Seconds backward = Seconds(0);  // its gradient, back
  bool operator==(const Hop&) const = default;
};

inline Seconds Sum(const Hop& hop) { return hop.forward + hop.backward; }

// The pipeline of one step.
struct PipelineProgram {
  Schedule schedule = Schedule::k1f1b;
  int micro_batches = 1;
  int virtual_stages = 1;        // chunks of a device, for kInterleaved1f1b
  Seconds message = Seconds(0);  // between neighbouring chunks, beside computation
  std::span<const StageWork> stages = {};
  // The messages behind each stage in place of `message`, under an order that is fixed; empty if
  // all are equal. The last are those from the last stage's chunks to the first stage's, if a stage
  // has several.
  std::span<const Hop> hops = {};
};

}  // namespace meshwright

#pragma once

#include "estimator/model/stage.h"
#include "estimator/problem/estimator_problem.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/framework_profile.h"
#include "search_space/spec/workload.h"

namespace meshwright {

// The bytes that one parameter takes.
struct StateBytes {
  double weight = 2;
  double gathered_weight = 2;  // the weight of a layer as ZeRO gathers it
  double gradient = 4;
  double optimizer = 12;
  double autograd = 0;          // 16-bit gradients beside the sums that they are added to
  double unsharded = 0;         // further copies of every parameter
  double sharded_copies = 0;    // further copies, sharded like the states
  double fp8_copies = 0;        // 8-bit copies of a layer's weights, if it also keeps 16-bit ones
  double reduced_gradient = 4;  // the gradient as its reduction sends it
};

StateBytes BytesPerParameter(const Workload& workload, const FrameworkProfile& profile);

// Returns the number of micro-batches whose activations stage `index` of `stage_count` holds at
// once. With virtual stages a chunk counts as its share of the stage:
// docs/cost_model/activations.md "In flight".
double InFlight(Schedule schedule, int index, int stage_count, int virtual_stages,
                int micro_batches);

StageMemory ScaledMemory(StageMemory memory, double ratio);

// Returns the peak of one device of the stage, by kind. `bytes` are the problem's.
StageMemory MemoryOf(const Stage& stage, double in_flight, const StateBytes& bytes,
                     const EstimatorProblem& problem);

}  // namespace meshwright

#pragma once

#include "estimator/estimator_problem.h"
#include "estimator/stage.h"
#include "search_space/estimate.h"
#include "search_space/framework_profile.h"
#include "search_space/workload.h"

namespace meshwright {

// Bytes that one parameter takes.
struct StateBytes {
  double weight = 2;
  double gathered_weight = 2;  // as ZeRO gathers it, of a layer
  double gradient = 4;
  double optimizer = 12;
  double autograd = 0;        // 16-bit gradients beside the sums that they are added to
  double unsharded = 0;       // copies beside the states, of every parameter
  double sharded_copies = 0;  // copies beside the states, sharded as they are
  double fp8_copies = 0;      // of a layer's 16-bit weights, where these are the states' own
};

StateBytes BytesPerParameter(const Workload& workload, const FrameworkProfile& profile);

// How states are divided (ZeRO, Rajbhandari et al. 2020, arXiv 1910.02054).
struct StateSharding {
  int zero_stage = 0;
  int dense_group = 1;       // ranks that share the dense states
  int expert_group = 1;      // ranks that share the expert states
  double offload_ratio = 0;  // of the optimizer states
};

// Micro-batches whose activations stage `index` of `stage_count` holds at once; with virtual stages
// a chunk counts as its share of the stage: docs/cost_model.md "In flight".
double InFlight(Schedule schedule, int index, int stage_count, int virtual_stages,
                int micro_batches);

// Peak of one device of the stage by kind.
StageMemory ScaledMemory(StageMemory memory, double ratio);

StageMemory MemoryOf(const Stage& stage, const StateSharding& sharding, double in_flight,
                     const EstimatorProblem& problem);

}  // namespace meshwright

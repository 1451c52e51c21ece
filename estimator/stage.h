#pragma once

#include <vector>

#include "estimator/simulation.h"
#include "estimator/unit_costs.h"
#include "search_space/estimate.h"
#include "search_space/plan.h"

namespace meshwright {

// What one pipeline stage holds and how it is split; every stage may differ.
struct Stage {
  const NodePool* pool = nullptr;
  const UnitCosts* unit = nullptr;
  LayerSharding sharding = {};
  int data_parallel = 1;
  int block_stride = 1;  // of StageBlocks
  int dense_layers = 0;
  int moe_layers = 0;
  int mtp_layers = 0;
  bool has_embedding = false;
  bool has_head = false;
  int recomputed_layers = 0;     // fully; the first of the stage
  int selective_layers = 0;      // selectively; those after them
  int selective_mtp_layers = 0;  // where all layers recompute selectively: all of mtp_layers
  int offloaded_layers = 0;      // activations on the host, without recomputation; the first
  int whole_layers = 0;          // of which ZeRO 3 leaves the weights whole; the first
  bool operator==(const Stage&) const = default;
};

// The recomputing layers of a stage by kind, whose dense layers come first.
struct RecomputedKinds {
  int full_dense = 0;
  int full_moe = 0;
  int selective_dense = 0;
  int selective_moe = 0;
};

RecomputedKinds RecomputedKindsOf(const Stage& stage);

inline StageBlocks BlocksOf(const Stage& s) {
  return {.devices = s.sharding.tensor_parallel * s.sharding.context_parallel,
          .stride = s.block_stride};
}

// Neighbouring stages that are equal, as most of a pipeline's are: priced once.
struct StageRun {
  Stage stage = {};
  int first = 0;  // index of the first of them
  int count = 0;
};

// Time of one micro-batch on a stage (all its virtual chunks).
struct StageTime {
  PassTime forward = {};
  PassTime backward = {};     // recomputation included
  Seconds wall = Seconds(0);  // forward and backward, launches and exposed copies included
  StageWork work = {};        // `wall` by pass
  // What a step's communication runs beside. Recomputation adds to the backward window no more than
  // it adds to `wall`; in a pipeline it adds nothing, where the slowest stage need not be the one
  // that recomputes. So more of it never makes a step shorter.
  Seconds forward_window = Seconds(0);
  Seconds backward_window = Seconds(0);
};

// Of two stages that share a device, each for half of the micro-batches.
StageTime Mean(const StageTime& a, const StageTime& b);

// The stage's unit must have its times.
StageTime TimeOf(const Stage& stage, bool is_pipelined);

// Parameters on one device of a stage.
struct StageParameters {
  double dense = 0;
  double vocabulary = 0;  // of `dense`: embedding and output layer
  double expert = 0;
};

StageParameters ParametersOf(const Stage& stage, const ModelSpec& model);
// Of these, those that ZeRO 3 leaves whole.
StageParameters WholeParametersOf(const Stage& stage);

// What the offloaded layers of a stage keep of one micro-batch.
Bytes OffloadedBytes(const Stage& stage);

}  // namespace meshwright

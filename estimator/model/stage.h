#pragma once

#include <vector>

#include "estimator/layer/layer_cost.h"
#include "estimator/layer/unit_costs.h"
#include "estimator/pipeline/simulation.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/estimate.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// The devices of a stage, how they share its work and its states, and what a layer costs each of
// them. All stages of a plan for one pool have the same.
struct StageDevices {
  const NodePool* pool = nullptr;
  const UnitCosts* unit = nullptr;
  LayerSharding sharding = {};
  int data_parallel = 1;  // of each direction
  int directions = 1;     // of the pipeline: so many copies of a stage share its states
  int block_stride = 1;   // of StageBlocks
  StateSharding states = {};
  DataGroups groups = {};  // filled in where the stage's time is asked for
  bool operator==(const StageDevices&) const = default;
};

// Parameters on one device of a stage.
struct StageParameters {
  double dense = 0;
  double vocabulary = 0;  // of `dense`: embedding and output layer
  double expert = 0;
  bool operator==(const StageParameters&) const = default;
};

// What one pipeline stage holds; every stage may differ.
struct Stage {
  const StageDevices* devices = nullptr;
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
  StageParameters parameters = {};
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

inline StageBlocks BlocksOf(const StageDevices& d) {
  return {.devices = d.sharding.tensor_parallel * d.sharding.context_parallel,
          .stride = d.block_stride};
}

// Time of one micro-batch on a stage (all its virtual chunks).
struct StageTime {
  Seconds wall = Seconds(0);  // forward and backward, launches and exposed copies included
  StageWork work = {};        // `wall` by pass
  // Copies of activations that are longer than their pass; part of `work`.
  Seconds forward_copies = Seconds(0);
  Seconds backward_copies = Seconds(0);
  // What a step's communication runs beside. Recomputation adds to the backward window no more than
  // it adds to `wall`; in a pipeline it adds nothing, where the slowest stage need not be the one
  // that recomputes. So more of it never makes a step shorter.
  Seconds forward_window = Seconds(0);
  Seconds backward_window = Seconds(0);
};

// Neighbouring stages that are equal, as most of a pipeline's are: priced once.
struct StageRun {
  Stage stage = {};
  int first = 0;  // index of the first of them
  int count = 0;
  StageWork work = {};  // of each, filled in where its time is asked for
};

// The stage's unit must have its times, of this and of what follows.
StageTime TimeOf(const Stage& stage, bool is_pipelined);

// What that time is made of.
template <typename Pass>
struct StagePasses {
  Pass forward = {};
  Pass backward = {};  // recomputation included
};

// `time` is the stage's own.
StagePasses<PassTime> PassesOf(const Stage& stage, const StageTime& time);
// Of two stages that share a device, each for half of the micro-batches.
StagePasses<PassTime> Mean(const StagePasses<PassTime>& a, const StagePasses<PassTime>& b);

// By the stage's layers; what to set `parameters` to.
StageParameters ParametersOf(const Stage& stage, const ModelSpec& model);
// Of these, those that ZeRO 3 leaves whole.
StageParameters WholeParametersOf(const Stage& stage);

// What the offloaded layers of a stage keep of one micro-batch.
Bytes OffloadedBytes(const Stage& stage);

}  // namespace meshwright

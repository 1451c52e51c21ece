#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>

#include "estimator/layer/layer_cost.h"
#include "estimator/layer/unit_costs.h"
#include "estimator/pipeline/program.h"
#include "estimator/terms/collective.h"
#include "estimator/terms/sharding.h"
#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/layer_list.h"
#include "search_space/spec/model.h"

namespace meshwright {

// The ring in which the ranks of unequal replicas that hold the same part of a stage's layers add
// up its gradients.
struct ReplicaRing {
  int ranks = 1;
  RingHop hop = {};
  bool leaves_node = false;
  bool operator==(const ReplicaRing&) const = default;
};

// The devices of a stage, how they share its work and its states, and what a layer keeps on each of
// them. All stages of a plan for one pool have the same.
struct StageDevices {
  const NodePool* pool = nullptr;
  const UnitCosts* unit = nullptr;
  LayerSharding sharding = {};
  int data_parallel = 1;  // copies in each direction
  int directions = 1;     // directions of the pipeline; as many copies of a stage share its states
  int block_stride = 1;   // stride of its StageBlocks
  StateSharding states = {};
  std::optional<int> shared_node = {};   // the node of its pool that the stage is a part of
  std::optional<ReplicaRing> ring = {};  // if the plan has replica groups
  bool operator==(const StageDevices&) const = default;
};

// Parameters on one device of a stage.
struct StageParameters {
  double dense = 0;
  double vocabulary = 0;  // the part of `dense` in the embedding and the output layer
  double expert = 0;
  bool operator==(const StageParameters&) const = default;
};

// The layers of one pipeline stage and what is done with them; every stage may differ.
struct Stage {
  const StageDevices* devices = nullptr;
  LayerCounts layers = {};  // by kind (LayerList::kinds)
  int layer_count = 0;      // sum of `layers`
  // The model's layers and the first of them here, for models whose kinds alternate; otherwise null
  // and 0, and the layers of a stage come in the order of their kinds.
  const LayerList* order = nullptr;
  int first_layer = 0;
  int mtp_layers = 0;
  bool has_embedding = false;
  bool has_head = false;
  int recomputed_layers = 0;     // layers that recompute fully: the first of the stage
  int selective_layers = 0;      // layers after them that recompute selectively
  int selective_mtp_layers = 0;  // all of mtp_layers if all layers recompute selectively, else 0
  int offloaded_layers = 0;      // first layers, whose activations go to the host
  int whole_layers = 0;          // first layers, whose weights ZeRO-3 leaves whole
  StageParameters parameters = {};
  bool operator==(const Stage&) const = default;
};

// Returns the kinds of the first `count` layers of a stage.
LayerCounts FirstLayers(const Stage& stage, int count);

// The recomputing layers of a stage by kind.
struct RecomputedKinds {
  LayerCounts full = {};
  LayerCounts selective = {};
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
  // Time that a step's communication can run beside. Recomputation adds no more to the backward
  // window than it adds to `wall`; in a pipeline it adds nothing, because the slowest stage need
  // not be the one that recomputes. So more recomputation never makes a step shorter.
  Seconds forward_window = Seconds(0);
  Seconds backward_window = Seconds(0);
  // Time in which the collectives of the layers occupy the network between nodes.
  Seconds forward_network = Seconds(0);
  Seconds backward_network = Seconds(0);
};

// Returns the time of a stage that takes `ratio` times as long for everything.
StageTime Scaled(const StageTime& time, double ratio);

// `unit` holds the times of a layer on the stage's devices, here and below.
StageTime TimeOf(const Stage& stage, const UnitSums& unit, bool is_pipelined);

// The passes that make up that time.
template <typename Pass>
struct StagePasses {
  Pass forward = {};
  Pass backward = {};  // recomputation included
};

// `time` is that of the same stage.
StagePasses<PassTime> PassesOf(const Stage& stage, const UnitTimes& unit, const StageTime& time);
// Returns the passes of a stage that takes `ratio` times as long for everything.
StagePasses<PassTime> Scaled(const StagePasses<PassTime>& passes, double ratio);
// Returns the mean of two stages that share a device, each for half of the micro-batches.
StagePasses<PassTime> Mean(const StagePasses<PassTime>& a, const StagePasses<PassTime>& b);

// Counts the parameters of the stage's layers: the value of Stage::parameters.
StageParameters ParametersOf(const Stage& stage, const ModelSpec& model);

// Returns the most of a figure among the kinds of the stage's layers, or 0 if it has none.
template <typename Figure>
auto LargestOf(const Stage& stage, const Figure& figure) {
  const auto& kinds = stage.devices->unit->kinds;
  decltype(figure(kinds.front())) most = {};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (stage.layers[i] > 0) most = std::max(most, figure(kinds[i]));
  }
  return most;
}
// Returns the part of these that ZeRO-3 leaves whole.
StageParameters WholeParametersOf(const Stage& stage);

// Returns the bytes that the offloaded layers of a stage keep of one micro-batch.
Bytes OffloadedBytes(const Stage& stage);

}  // namespace meshwright

#pragma once

#include <map>
#include <optional>
#include <vector>

#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"

namespace meshwright {

// Values of kRecompute; those above stand for full recomputation (SearchSpace::Values).
inline constexpr int kNoRecomputeCode = 0;
inline constexpr int kSelectiveRecomputeCode = 1;

// The largest shares of what plans put into host memory.
struct MostOffloaded {
  double optimizer = 0;    // of the optimizer's states
  double activations = 0;  // of a stage's layers
};

// What a user leaves of a dimension.
struct DimensionChoice {
  std::vector<int> values = {};  // empty: any
  std::optional<int> at_least = {};
  std::optional<int> at_most = {};
  [[nodiscard]] bool Allows(int value) const;
  bool operator==(const DimensionChoice&) const = default;
};

// How far the space is open. Values of choices are coded: words by their enumerator, false and true
// as 0 and 1, recomputation by its granularity, shares of offload and of whole weights by their per
// cent.
struct SpaceOptions {
  std::vector<ContextParallelKind> context_parallel_kinds = {ContextParallelKind::kRing};
  std::vector<Schedule> schedules = {Schedule::k1f1b, Schedule::kInterleaved1f1b};
  std::vector<RankOrder> rank_orders = {RankOrder::kTpCpEpDpPp};
  int fabric_devices = 1;         // that one fabric joins: which of them matters to rank orders
  bool sizes_end_stages = false;  // first and last stage may have fewer layers than those between
  bool shards_in_groups = false;  // sharding groups smaller than the data-parallel group
  std::vector<int> whole_weights_percents = {0};  // of the layers, under ZeRO 3
  std::vector<int> offload_percents = {0};  // of the optimizer's states, where ZeRO shards them
  std::vector<int> activation_offload_percents = {0};  // of the layers, without recomputation
  bool activation_offload_needs_one_stage = false;     // no pipeline
  // Stages may recompute different numbers of layers, under schedules of fixed order. Of all such
  // numbers only the least that fit can be best, so the pruner finds them; they are not listed.
  bool recomputes_by_stage = false;
  // Layers of a stage may recompute fully, others selectively, others not; as many of each as are
  // best for the stage, under the same schedules, found and not listed like these numbers.
  bool mixes_recompute = false;
  std::map<Dimension, DimensionChoice> chosen = {};
  DimensionChoice data_parallel = {};
  DimensionChoice recomputed_layers = {};  // of a stage, under full recomputation
  // Left open by the workload: no part of a plan, each has a space of its own.
  DimensionChoice precisions = {};
  bool operator==(const SpaceOptions&) const = default;
};

}  // namespace meshwright

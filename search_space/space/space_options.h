#pragma once

#include <array>
#include <map>
#include <optional>
#include <vector>

#include "search_space/space/dimensions.h"
#include "search_space/spec/choices.h"
#include "search_space/spec/workload_settings.h"

namespace meshwright {

// Values of kRecompute; larger ones stand for full recomputation (SearchSpace::Values).
inline constexpr int kNoRecomputeCode = 0;
inline constexpr int kSelectiveRecomputeCode = 1;

// The largest shares that plans put into host memory.
struct MostOffloaded {
  double optimizer = 0;    // share of the optimizer's states
  double activations = 0;  // share of a stage's layers
};

// The values of a dimension that the user allows.
struct DimensionChoice {
  std::vector<int> values = {};  // empty: any
  std::optional<int> at_least = {};
  std::optional<int> at_most = {};
  [[nodiscard]] bool Allows(int value) const;
  bool operator==(const DimensionChoice&) const = default;
};

// The extent of the space. Values of choices are coded: words by their enumerator, booleans as 0
// and 1, recomputation by its granularity, and shares of offload and of whole weights in per cent.
struct SpaceOptions {
  std::vector<ContextParallelKind> context_parallel_kinds = {ContextParallelKind::kRing};
  std::vector<Schedule> schedules = {Schedule::k1f1b, Schedule::kInterleaved1f1b};
  std::vector<RankOrder> rank_orders = {RankOrder::kTpCpEpDpPp};
  // The number of devices that one fabric joins; it determines the rank orders that matter.
  int fabric_devices = 1;
  bool sizes_end_stages = false;  // first and last stage may have fewer layers than the others
  bool shards_in_groups = false;  // sharding groups smaller than the data-parallel group
  std::vector<int> whole_weights_percents = {0};  // share of the layers, under ZeRO 3
  std::vector<int> offload_percents = {0};  // share of the optimizer's states that ZeRO shards
  std::vector<int> activation_offload_percents = {0};  // share of the layers, without recomputation
  bool activation_offload_needs_one_stage = false;     // only without a pipeline
  // Stages may recompute different numbers of layers, under schedules of fixed order. Only the
  // least numbers that fit can be best, so the pruner finds them and the space does not list them.
  bool recomputes_by_stage = false;
  // A stage may recompute some layers fully, others selectively and the rest not at all, under the
  // same schedules. The pruner finds the best numbers for each stage; the space does not list them
  // either.
  bool mixes_recompute = false;
  std::map<Dimension, DimensionChoice> chosen = {};
  DimensionChoice data_parallel = {};
  DimensionChoice recomputed_layers = {};  // layers of a stage, under full recomputation
  // Settings that the workload leaves open, in the order of kWorkloadSettings. They are no part of
  // a plan; each combination of values has its own space.
  std::array<DimensionChoice, kWorkloadSettings.size()> settings = {};
  bool operator==(const SpaceOptions&) const = default;
};

}  // namespace meshwright

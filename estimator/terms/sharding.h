#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <utility>

#include "search_space/spec/choices.h"
#include "search_space/spec/cluster.h"
#include "search_space/spec/model.h"
#include "search_space/spec/plan.h"

namespace meshwright {

// Two numbers in one word: the time of a hash grows with the words.
inline std::uint64_t Packed(int high, int low) {
  return std::uint64_t{static_cast<std::uint32_t>(high)} << 32 | static_cast<std::uint32_t>(low);
}

// The places of the ranks of one communication group: `in_node` in each of `nodes` nodes.
struct GroupShape {
  int in_node = 1;
  int nodes = 1;
  int node_stride = 1;  // nodes from one to the next; above 1 if other pipeline stages lie between
  auto operator<=>(const GroupShape&) const = default;

  template <typename H>
  friend H AbslHashValue(H hash, const GroupShape& s) {
    return H::combine(std::move(hash), Packed(s.in_node, s.nodes), s.node_stride);
  }
};

inline int Ranks(const GroupShape& shape) { return shape.in_node * shape.nodes; }

// The division of states between ranks (ZeRO, Rajbhandari et al. 2020, arXiv 1910.02054).
struct StateSharding {
  int zero_stage = 0;
  int dense_group = 1;       // ranks that share the dense states
  int expert_group = 1;      // ranks that share the expert states
  double offload_ratio = 0;  // share of the optimizer states
  bool operator==(const StateSharding&) const = default;
};

// The ranks that hold copies of a stage's dense states, and those of its experts.
struct DataGroups {
  GroupShape dense = {};           // data x context parallel, inside one sharding group
  GroupShape dense_replicas = {};  // copies of a sharding group (HSDP); one rank when there is none
  GroupShape expert = {};
  bool operator==(const DataGroups&) const = default;
};

// The part of a plan that decides what one layer costs on one device: the key of memoised costs.
struct LayerSharding {
  int tensor_parallel = 1;
  bool sequence_parallel = false;
  int context_parallel = 1;
  ContextParallelKind context_parallel_kind = ContextParallelKind::kRing;
  int hybrid_exchange_ranks = 1;  // for kHybrid: HybridExchangeRanks()
  int expert_parallel = 1;
  int expert_tensor_parallel = 1;
  // Group of expert parallelism if other stages of the pipeline lie between its ranks; absent if
  // the ranks are neighbours.
  std::optional<GroupShape> expert_group = {};
  int micro_batch_size = 1;
  // The next four are set only if the framework's costs depend on them.
  bool is_pipelined = false;
  bool pipeline_leaves_node = false;
  int gradient_shards = 1;  // ZeRO-2 and 3: ranks that each accumulate a share of the dense part
  int expert_gradient_shards = 1;
  bool hides_exchange = false;  // of tokens with experts, behind another micro-batch
  auto operator<=>(const LayerSharding&) const = default;

  template <typename H>
  friend H AbslHashValue(H hash, const LayerSharding& s) {
    const int kinds = static_cast<int>(s.context_parallel_kind) << 4 | int{s.hides_exchange} << 3 |
                      int{s.sequence_parallel} << 2 | int{s.is_pipelined} << 1 |
                      int{s.pipeline_leaves_node};
    return H::combine(std::move(hash), Packed(s.tensor_parallel, s.context_parallel),
                      Packed(s.expert_parallel, s.expert_tensor_parallel),
                      Packed(s.hybrid_exchange_ranks, s.micro_batch_size),
                      Packed(s.gradient_shards, s.expert_gradient_shards), kinds,
                      s.expert_group.value_or(GroupShape{}));
  }
};

// Returns the number of context-parallel ranks that exchange heads: all ranks of Ulysses, one of a
// ring or gather.
int ExchangeRanks(const LayerSharding& sharding);

// Returns the number that ranks that exchange heads must divide: the greatest common divisor of the
// attention heads and the key-value heads of a tensor-parallel rank. If there are fewer key-value
// heads than ranks, every rank has a copy. `tensor_parallel` divides the attention heads.
int ExchangedHeads(const ModelSpec& model, int tensor_parallel);

// Returns how many ranks of hybrid context parallelism exchange heads (DeepSpeed-Ulysses inside,
// ring outside; USP, Fang and Zhao 2024, arXiv 2405.07719): the largest number that divides the
// context-parallel ranks and `heads_per_rank` (ExchangedHeads) and, together with tensor
// parallelism, fits in one fabric and divides it.
int HybridExchangeRanks(int context_parallel, int tensor_parallel, int heads_per_rank,
                        int scale_up_devices);

// Places a group of `ranks` whose members are `stride` devices apart: it fills a node before it
// leaves it. A group that does not divide the node counts as leaving it.
GroupShape PlaceGroup(int ranks, int stride, int scale_up_devices);

// The devices of a stage: blocks of tensor x context ranks, each `stride` blocks behind the one
// before. Under kTpCpEpDpPp (Megatron-Core's default, parallel_state.py) the stage's blocks are
// neighbours; under kTpCpEpPpDp the blocks of the other stages of a pipeline lie between.
struct StageBlocks {
  int devices = 1;  // per block
  int stride = 1;
};

// Places a group of `ranks` whose members are `stride` of the stage's own devices apart.
GroupShape PlaceInStage(int ranks, int stride, const StageBlocks& blocks, int scale_up_devices);

// Returns true if the stages of a pipeline lie in one node, which is possible only under
// kTpCpEpPpDp.
bool PipelineStaysInNode(const StageBlocks& blocks, int scale_up_devices);

}  // namespace meshwright

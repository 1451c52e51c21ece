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

// Where the ranks of one communication group sit: `in_node` in each of `nodes` nodes.
struct GroupShape {
  int in_node = 1;
  int nodes = 1;
  int node_stride = 1;  // nodes from one to the next, where the stages of a pipeline lie between
  auto operator<=>(const GroupShape&) const = default;

  template <typename H>
  friend H AbslHashValue(H hash, const GroupShape& s) {
    return H::combine(std::move(hash), Packed(s.in_node, s.nodes), s.node_stride);
  }
};

inline int Ranks(const GroupShape& shape) { return shape.in_node * shape.nodes; }

// How states are divided (ZeRO, Rajbhandari et al. 2020, arXiv 1910.02054).
struct StateSharding {
  int zero_stage = 0;
  int dense_group = 1;       // ranks that share the dense states
  int expert_group = 1;      // ranks that share the expert states
  double offload_ratio = 0;  // of the optimizer states
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
  int hybrid_exchange_ranks = 1;  // of kHybrid: HybridExchangeRanks()
  int expert_parallel = 1;
  int expert_tensor_parallel = 1;
  // Of expert parallelism, where the stages of a pipeline lie between its ranks; else they are
  // neighbours.
  std::optional<GroupShape> expert_group = {};
  int micro_batch_size = 1;
  // The next three only where the framework's costs depend on them.
  bool is_pipelined = false;
  bool pipeline_leaves_node = false;
  int gradient_shards = 1;  // ZeRO-2 and 3: ranks that each accumulate a share of the dense part
  int expert_gradient_shards = 1;
  auto operator<=>(const LayerSharding&) const = default;

  template <typename H>
  friend H AbslHashValue(H hash, const LayerSharding& s) {
    const int kinds = static_cast<int>(s.context_parallel_kind) << 3 |
                      int{s.sequence_parallel} << 2 | int{s.is_pipelined} << 1 |
                      int{s.pipeline_leaves_node};
    return H::combine(std::move(hash), Packed(s.tensor_parallel, s.context_parallel),
                      Packed(s.expert_parallel, s.expert_tensor_parallel),
                      Packed(s.hybrid_exchange_ranks, s.micro_batch_size),
                      Packed(s.gradient_shards, s.expert_gradient_shards), kinds,
                      s.expert_group.value_or(GroupShape{}));
  }
};

// Ranks of context parallelism that exchange heads: all of Ulysses, none of a ring or gather.
int ExchangeRanks(const LayerSharding& sharding);

// Ranks that exchange heads must divide this: what attention heads and key-value heads of a
// tensor-parallel rank have in common; fewer key-value heads than ranks are copied to every rank.
// `tensor_parallel` divides the attention heads.
int ExchangedHeads(const ModelSpec& model, int tensor_parallel);

// The split of hybrid context parallelism (DeepSpeed-Ulysses inside, ring outside; USP, Fang and
// Zhao 2024, arXiv 2405.07719): heads are exchanged by as many ranks as divide the context-parallel
// ranks and `heads_per_rank` (ExchangedHeads) and, with tensor parallelism, fill a part of one
// fabric.
int HybridExchangeRanks(int context_parallel, int tensor_parallel, int heads_per_rank,
                        int scale_up_devices);

// A group of `ranks` whose members are `stride` devices apart: it fills a node before it leaves it;
// one that does not divide the node counts as leaving it.
GroupShape PlaceGroup(int ranks, int stride, int scale_up_devices);

// The devices of a stage: blocks of tensor x context ranks, each so many blocks behind the one
// before. Under kTpCpEpDpPp (Megatron-Core's default, parallel_state.py) the stage's blocks are
// neighbours; under kTpCpEpPpDp the blocks of the other stages of a pipeline lie between.
struct StageBlocks {
  int devices = 1;  // of a block
  int stride = 1;
};

// A group of `ranks` whose members are `stride` of the stage's own devices apart.
GroupShape PlaceInStage(int ranks, int stride, const StageBlocks& blocks, int scale_up_devices);

// Whether the stages of a pipeline lie in one node, which they do under kTpCpEpPpDp alone.
bool PipelineStaysInNode(const StageBlocks& blocks, int scale_up_devices);

}  // namespace meshwright

#include "estimator/terms/sharding.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <numeric>

#include "search_space/spec/choices.h"

namespace meshwright {

int ExchangeRanks(const LayerSharding& s) {
  switch (s.context_parallel_kind) {
    case ContextParallelKind::kRing:
    case ContextParallelKind::kAllGather:
      return 1;
    case ContextParallelKind::kUlysses:
      return s.context_parallel;
    case ContextParallelKind::kHybrid:
      return s.hybrid_exchange_ranks;
  }
  std::abort();
}

int ExchangedHeads(const ModelSpec& model, int tensor_parallel) {
  // Latent attention has keys and values for every head.
  const int keys = model.mla.has_value() ? model.attention_head_count : model.kv_head_count;
  return std::gcd(model.attention_head_count, std::max(keys, tensor_parallel)) / tensor_parallel;
}

int HybridExchangeRanks(int context_parallel, int tensor_parallel, int heads_per_rank,
                        int scale_up_devices) {
  if (scale_up_devices % tensor_parallel != 0) return 1;
  return std::gcd(std::gcd(context_parallel, heads_per_rank), scale_up_devices / tensor_parallel);
}

GroupShape PlaceGroup(int ranks, int stride, int scale_up_devices) {
  if (ranks == 1) return {};
  const int slots = stride > 0 && scale_up_devices % stride == 0 ? scale_up_devices / stride : 1;
  const int in_node = std::gcd(ranks, slots);
  return {.in_node = in_node, .nodes = ranks / in_node};
}

GroupShape PlaceInStage(int ranks, int stride, const StageBlocks& blocks, int scale_up_devices) {
  if (blocks.stride == 1 || ranks == 1) return PlaceGroup(ranks, stride, scale_up_devices);
  // The group consists of parts that each lie in one block, whole blocks apart.
  const int inside = blocks.devices % stride == 0 ? std::gcd(ranks, blocks.devices / stride) : 1;
  const GroupShape part = PlaceGroup(inside, stride, scale_up_devices);
  const int parts = ranks / inside;
  if (parts == 1) return part;
  const std::int64_t distance =
      std::lcm(std::int64_t{inside} * stride, std::int64_t{blocks.devices}) * blocks.stride;
  const GroupShape across = distance > scale_up_devices
                                ? GroupShape{.nodes = parts}
                                : PlaceGroup(parts, static_cast<int>(distance), scale_up_devices);
  // It is no farther away than the stages in between make it.
  const std::int64_t from = distance * across.in_node;
  const std::int64_t node = std::int64_t{scale_up_devices} * part.nodes;
  const std::int64_t apart = std::min((from + node - 1) / node, std::int64_t{blocks.stride});
  return {.in_node = part.in_node * across.in_node,
          .nodes = part.nodes * across.nodes,
          .node_stride = static_cast<int>(apart)};
}

bool PipelineStaysInNode(const StageBlocks& blocks, int scale_up_devices) {
  return blocks.stride > 1 && scale_up_devices % (blocks.devices * blocks.stride) == 0;
}

}  // namespace meshwright

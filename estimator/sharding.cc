#include "estimator/sharding.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>

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
  for (int ranks = context_parallel; ranks > 1; --ranks) {
    if (context_parallel % ranks == 0 && scale_up_devices % (ranks * tensor_parallel) == 0 &&
        heads_per_rank % ranks == 0) {
      return ranks;
    }
  }
  return 1;
}

GroupShape PlaceGroup(int ranks, int stride, int scale_up_devices) {
  const int slots = stride > 0 && scale_up_devices % stride == 0 ? scale_up_devices / stride : 1;
  const int in_node = std::gcd(ranks, slots);
  return {.in_node = in_node, .nodes = ranks / in_node};
}

}  // namespace meshwright

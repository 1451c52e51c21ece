#include "estimator/sharding.h"

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

int HybridExchangeRanks(int context_parallel, int tensor_parallel, int attention_head_count,
                        int scale_up_devices) {
  for (int ranks = context_parallel; ranks > 1; --ranks) {
    if (context_parallel % ranks == 0 && ranks * tensor_parallel <= scale_up_devices &&
        attention_head_count % (tensor_parallel * ranks) == 0) {
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

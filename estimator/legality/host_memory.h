#pragma once

#include "search_space/base/units.h"
#include "search_space/spec/cluster.h"

namespace meshwright {

// Returns the memory of a node that states none: as much as its devices have. Assumed; published
// servers have more (DGX-1 2 times, DGX A100 and H100 3.2, DGX B200 1.4, GB200 1.3, MI300X 1.5).
inline Bytes AssumedHostMemory(const NodePool& pool) {
  return Scale(pool.chip.memory_capacity, pool.devices_per_node);
}

}  // namespace meshwright

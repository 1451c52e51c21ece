#include "estimator/sharding.h"

#include <numeric>

namespace meshwright {

GroupShape PlaceGroup(int ranks, int stride, int devices_per_node) {
  const int slots = stride > 0 && devices_per_node % stride == 0 ? devices_per_node / stride : 1;
  const int in_node = std::gcd(ranks, slots);
  return {.in_node = in_node, .nodes = ranks / in_node};
}

}  // namespace meshwright

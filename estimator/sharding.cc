#include "estimator/sharding.h"

#include <numeric>

namespace meshwright {

GroupShape PlaceGroup(int ranks, int stride, int scale_up_devices) {
  const int slots = stride > 0 && scale_up_devices % stride == 0 ? scale_up_devices / stride : 1;
  const int in_node = std::gcd(ranks, slots);
  return {.in_node = in_node, .nodes = ranks / in_node};
}

}  // namespace meshwright

#include "estimator/terms/stream.h"

namespace meshwright {

Seconds StreamTime(Bytes bytes, double efficiency, const ChipSpec& chip) {
  if (bytes.count <= 0) return Seconds(0);
  double rate = chip.memory_bandwidth.rate * efficiency;
  if (chip.cache.count > 0 && bytes.count < chip.cache.count / 2) {
    rate *= chip.cache_bandwidth_ratio;
  }
  return chip.memory_bound_fixed + Seconds(static_cast<double>(bytes.count) / rate);
}

}  // namespace meshwright

#pragma once

#include <atomic>

namespace meshwright {

// Lets some time pass that no event marks, so that each kill comes at a different moment. It
// computes instead of sleeping; a thousand rounds take about a microsecond.
inline void PassRounds(long rounds) {
  std::atomic<long> passed = 0;
  while (passed.fetch_add(1, std::memory_order_relaxed) < rounds) {
  }
}

}  // namespace meshwright

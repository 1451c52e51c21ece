#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

namespace meshwright {

// Returns the median of at least one value; for an even number of values, the midpoint of the two
// middle ones.
template <typename Value>
Value Median(std::vector<Value> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return std::midpoint(values[middle - 1], values[middle]);
}

}  // namespace meshwright

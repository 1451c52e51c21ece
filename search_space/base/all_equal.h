#pragma once

#include <algorithm>

namespace meshwright {

// Returns true if all elements of a range are equal; those of an empty one are.
template <typename Range>
bool AllEqual(const Range& range) {
  return std::all_of(range.begin(), range.end(),
                     [&](const auto& value) { return value == *range.begin(); });
}

}  // namespace meshwright

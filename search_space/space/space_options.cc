#include "search_space/space/space_options.h"

#include <algorithm>

namespace meshwright {

bool DimensionChoice::Allows(int value) const {
  if (at_least.has_value() && value < *at_least) return false;
  if (at_most.has_value() && value > *at_most) return false;
  return values.empty() || std::ranges::find(values, value) != values.end();
}

}  // namespace meshwright

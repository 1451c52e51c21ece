#pragma once

#include <cstddef>
#include <string_view>

namespace meshwright {

// Returns Levenshtein's distance: the least number of letters to change, add or remove that turns
// one word into the other.
std::size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace meshwright

#pragma once

#include <cstddef>
#include <string_view>

namespace meshwright {

// Returns the Levenshtein distance: the least number of letters to change, add or remove to turn
// one word into the other.
std::size_t EditDistance(std::string_view a, std::string_view b);

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>

namespace meshwright {

enum class Paint { kHeading, kGood, kBad, kWarning };

// Returns the text in a colour of the terminal (ECMA-48), or as it is without colours. A painted
// text is longer than it looks, so that lines are broken before they are painted.
std::string Painted(std::string_view text, Paint paint, bool has_color);

}  // namespace meshwright

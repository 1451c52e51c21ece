#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace meshwright {

// Returns the text with lower-case letters for those of ASCII, whatever the locale.
inline std::string LowerCase(std::string_view text) {
  std::string lower(text);
  std::ranges::for_each(lower, [](char& c) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  });
  return lower;
}

}  // namespace meshwright

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace meshwright {

// Returns a count with separators: "1,234,567".
inline std::string CountText(std::int64_t count) {
  std::string text = std::to_string(count);
  const std::size_t first_digit = count < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first_digit + 3;) {
    at -= 3;
    text.insert(at, ",");
  }
  return text;
}

}  // namespace meshwright

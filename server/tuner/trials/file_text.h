#pragma once

#include <array>
#include <istream>
#include <string>

namespace meshwright {

// What is left of a file, or as much as could be read: a stream's iterators throw where a read
// fails, as it may on a file system of another machine.
inline std::string RestOf(std::istream& file) {
  std::string text;
  std::array<char, 1 << 16> part = {};
  do {
    file.read(part.data(), part.size());
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  } while (file);
  return text;
}

}  // namespace meshwright

#pragma once

#include <array>
#include <istream>
#include <string>

namespace meshwright {

// Returns the rest of a file, or as much of it as could be read. A stream's iterators throw if a
// read fails, which may happen on a remote file system.
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

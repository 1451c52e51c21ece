#pragma once

#include <array>
#include <cstddef>
#include <istream>
#include <string>

namespace meshwright {

// Returns the rest of a file, or as much of it as could be read; `file.bad()` is true if a read
// failed. The iterators of a stream throw instead, and reads do fail: of a folder, on a remote file
// system, of a file of a process that ends.
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

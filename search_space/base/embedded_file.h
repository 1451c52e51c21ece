#pragma once

#include <string_view>

namespace meshwright {

// A data file (chip file or framework profile) that is compiled into the program; see
// cmake/embed.cmake.
struct EmbeddedFile {
  std::string_view name;  // file name without folder and extension
  std::string_view text;
};

}  // namespace meshwright

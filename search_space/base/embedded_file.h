#pragma once

#include <string_view>

namespace meshwright {

// A data file compiled into the program (chip files, framework profiles), see cmake/embed.cmake.
struct EmbeddedFile {
  std::string_view name;  // file name without folder and extension
  std::string_view text;
};

}  // namespace meshwright

#include "cli/input/text_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>
#include <utility>

namespace meshwright {

absl::StatusOr<std::string> ReadTextFile(const std::string& path) {
  std::ostringstream text;
  if (path == "-") {
    text << std::cin.rdbuf();
    return std::move(text).str();
  }
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(fmt::format("{}; is a folder, must be a file", path));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return absl::InvalidArgumentError(
        fmt::format("{}; cannot be read: {}", path, std::strerror(errno)));
  }
  text << file.rdbuf();
  return std::move(text).str();
}

}  // namespace meshwright

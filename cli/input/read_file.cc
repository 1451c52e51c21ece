#include "cli/input/read_file.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <system_error>
#include <utility>

#include "cli/input/json_text.h"
#include "proto/json/json.h"

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

std::optional<std::string> ReadFor(const std::string& field, const std::string& path,
                                   std::vector<FieldViolation>& violations) {
  auto text = ReadTextFile(path);
  if (text.ok()) return *std::move(text);
  violations.push_back({.field = field, .description = std::string(text.status().message())});
  return std::nullopt;
}

std::optional<std::string> ReadJsonFor(const std::string& field, const std::string& path,
                                       std::vector<FieldViolation>& violations) {
  auto text = ReadFor(field, path, violations);
  if (!text.has_value()) return std::nullopt;
  auto json = AsJson(*std::move(text), path);
  if (json.ok()) return *std::move(json);
  violations.push_back({.field = field, .description = std::string(json.status().message())});
  return std::nullopt;
}

void ReadPartFile(const std::string& field, const std::string& path,
                  google::protobuf::Message& part, std::vector<FieldViolation>& violations) {
  const auto text = ReadJsonFor(field, path, violations);
  if (!text.has_value()) return;
  std::vector<FieldViolation> found = ParseJson(*text, field, part);
  violations.insert(violations.end(), std::make_move_iterator(found.begin()),
                    std::make_move_iterator(found.end()));
}

}  // namespace meshwright

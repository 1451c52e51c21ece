#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwright {

// Bytes as lower-case hexadecimal digits, and back; nothing for what is no such text.
std::string ToHex(std::string_view bytes);
std::optional<std::string> FromHex(std::string_view text);

// SHA-256 of bytes, and of a file, as ToHex has it. NOT_FOUND: no such file.
std::string Checksum(std::string_view bytes);
absl::StatusOr<std::string> FileChecksum(const std::string& path);

}  // namespace meshwright

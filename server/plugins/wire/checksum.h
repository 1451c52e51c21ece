#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace meshwright {

// Returns the SHA-256 of a file in hexadecimal digits; NOT_FOUND if it cannot be read.
absl::StatusOr<std::string> FileChecksum(const std::string& path);

}  // namespace meshwright

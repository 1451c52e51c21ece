#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace meshwright {

// Reads a whole file, or stdin for "-". INVALID_ARGUMENT with the system's reason if it cannot be
// read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace meshwright {

// Writes a file, and makes its folder if it is missing. The file appears whole or not at all, even
// if the machine stops or another program writes the same file. ALREADY_EXISTS if there is one,
// unless `replaces`.
absl::Status WriteWholeFile(const std::string& path, std::string_view text, bool replaces);

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace meshwright {

// Writes a file, and its folder where that is missing: whole or not at all, also when the machine
// stops, and beside another program that does the same. ALREADY_EXISTS unless it `replaces`.
absl::Status WriteWholeFile(const std::string& path, std::string_view text, bool replaces);

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwright {

// Returns a YAML document as JSON text, with its keys in their order; an empty document is `{}`.
// Only JSON's values are read as more than text: numbers (digits may be grouped: 80_000), true,
// false and null. INVALID_ARGUMENT names the line; also if a key is given twice, if a value is
// nested deeper than 64 levels, or if aliases repeat more than 100,000 values or 16 MiB.
absl::StatusOr<std::string> YamlAsJson(std::string_view text);

}  // namespace meshwright

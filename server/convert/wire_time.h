#pragma once

#include <cstdint>
#include <string>

namespace meshwright {

// Formats a time as RFC 3339 in UTC with milliseconds: `2025-01-31T23:59:59.000Z`.
std::string WireTime(std::int64_t unix_milliseconds);
std::string WireTimeNow();

}  // namespace meshwright

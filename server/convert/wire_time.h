#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/convert/message_reader.h"

namespace meshwright {

// Formats a time as RFC 3339 in UTC with milliseconds: `2025-01-31T23:59:59.000Z`.
std::string WireTime(std::int64_t unix_milliseconds);
std::string WireTimeNow();

// Reads a time of RFC 3339, or a date in UTC, which is its first moment. Returns nullopt for
// anything else.
std::optional<std::int64_t> ParseWireTime(std::string_view text);

// Reads a field with such a time; anything else is a mistake. Returns nullopt if it is not stated.
std::optional<std::int64_t> ReadTime(const MessageReader& in, std::string_view field);

}  // namespace meshwright

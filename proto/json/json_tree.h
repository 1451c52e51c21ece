#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"

namespace meshwright {

// JSON text as a tree. Unlike nlohmann's own tree it keeps the keys in the order of the text, and
// duplicate keys.
struct JsonValue;
using JsonArray = std::vector<JsonValue>;
using JsonObject = std::vector<std::pair<std::string, JsonValue>>;

struct JsonValue {
  // A whole number outside the range of int64 is a double.
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, JsonArray, JsonObject>
      value = nullptr;
};

// Parses the text. INVALID_ARGUMENT says where the text stops being JSON, or that it is nested too
// deeply.
absl::StatusOr<JsonValue> ReadJsonTree(std::string_view text);

// Returns `text` as a JSON string, with its quotes and with every control character escaped. Bytes
// that are not UTF-8 become U+FFFD.
std::string QuotedJson(std::string_view text);

}  // namespace meshwright

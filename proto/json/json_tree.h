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

// JSON text as a tree that keeps what nlohmann's own tree drops: keys in the order of the text, and
// those that stand twice.
struct JsonValue;
using JsonArray = std::vector<JsonValue>;
using JsonObject = std::vector<std::pair<std::string, JsonValue>>;

struct JsonValue {
  // A whole number outside int64 is a double.
  std::variant<std::nullptr_t, bool, std::int64_t, double, std::string, JsonArray, JsonObject>
      value = nullptr;
};

// INVALID_ARGUMENT says where the text stops being JSON, or that it is nested too deeply.
absl::StatusOr<JsonValue> ReadJsonTree(std::string_view text);

// Returns `text` as JSON writes it, quotes included and every control character escaped; bytes that
// are not UTF-8 become U+FFFD.
std::string QuotedJson(std::string_view text);

}  // namespace meshwright

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Reads and writes protobuf's JSON mapping by reflection, with the field names kept. Protobuf's own
// parser stops at the first mistake, and its printer orders maps by hash; users get every mistake
// at once here, and equal bytes for equal answers.

// Fills `message` from JSON text and returns every mistake: unknown keys (with the closest known
// one), wrong types, numbers out of range, duplicate keys. Paths start with `prefix`. Fields
// without a mistake are set even if others have one. Text that is not a JSON object is one
// violation. 64-bit integers may be numbers or strings.
std::vector<FieldViolation> ParseJson(std::string_view text, std::string_view prefix,
                                      google::protobuf::Message& message);

struct JsonStyle {
  bool multiline = false;  // one line per field, indented by two spaces; otherwise a single line
};

// Returns the message as JSON: fields in the order of their declaration, map entries ordered by
// key, doubles in the shortest form that reads back equal. Fields without presence are printed even
// if they are 0, false or empty.
std::string PrintJson(const google::protobuf::Message& message, const JsonStyle& style);

}  // namespace meshwright

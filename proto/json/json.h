#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "search_space/base/status.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Protobuf's JSON mapping with the field names kept, read and written by reflection. Protobuf's own
// parser stops at the first mistake and its printer orders maps by hash; users are owed every
// mistake at once and equal bytes for equal answers.

// Fills `message` from JSON text and returns every mistake: unknown keys (with the closest known
// one), wrong types, numbers out of range, duplicate keys; paths start with `prefix`. Fields
// without a mistake are set also when others have one. Text that is no JSON object is one
// violation. 64-bit integers may be numbers or strings.
std::vector<FieldViolation> ParseJson(std::string_view text, std::string_view prefix,
                                      google::protobuf::Message& message);

struct JsonStyle {
  bool multiline = false;  // two-space indentation, else one line
};

// Fields in the order of their declaration, map entries by key, every field without presence also
// when it is 0, false or empty; doubles by their shortest form that reads back equal.
std::string PrintJson(const google::protobuf::Message& message, const JsonStyle& style);

}  // namespace meshwright

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace google::protobuf {
class Descriptor;
}

namespace meshwright {

// Returns the text of an input file as JSON. JSON stays as it is, but that blanks take the place of
// its comments (`// ...` and `/* ... */`); YAML becomes JSON. A name that ends in .yaml or .yml
// says YAML; another name leaves it to the text. INVALID_ARGUMENT says where a text that is meant
// as YAML is none.
absl::StatusOr<std::string> AsJson(std::string text, std::string_view path);

// Returns the text as JSON if it is a message of this type in our own keys, or nullopt if it is the
// file of a training framework: a script, JSON with the framework's keys, or YAML most of whose
// keys are not the message's.
std::optional<std::string> OwnJson(const std::string& text, std::string_view path,
                                   const google::protobuf::Descriptor& type);

}  // namespace meshwright

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

// Returns the text as JSON if it is meant as a message of this type in our own keys, or nullopt if
// it is not: a script, a file with a key by which we know a framework's, or YAML that has no key of
// the message. Files with mistyped keys are ours, so that the error can name the right ones.
std::optional<std::string> OwnJson(const std::string& text, std::string_view path,
                                   const google::protobuf::Descriptor& type);

}  // namespace meshwright

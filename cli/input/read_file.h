#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "search_space/base/status.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Reads a whole file, or stdin for "-". INVALID_ARGUMENT with the system's reason if it cannot be
// read.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);

// Reads a file, or adds a mistake of the field to the list.
std::optional<std::string> ReadFor(const std::string& field, const std::string& path,
                                   std::vector<FieldViolation>& violations);

// Reads a file of JSON or YAML as JSON (AsJson), or adds a mistake of the field to the list.
std::optional<std::string> ReadJsonFor(const std::string& field, const std::string& path,
                                       std::vector<FieldViolation>& violations);

// Reads such a file as a part of a request and adds its mistakes to the list, under the field.
void ReadPartFile(const std::string& field, const std::string& path,
                  google::protobuf::Message& part, std::vector<FieldViolation>& violations);

}  // namespace meshwright

#pragma once

#include <string>
#include <vector>

namespace google::protobuf {
class FileDescriptorSet;
}

namespace meshwright {

// Returns the changes from `baseline` to `current` that would break existing programs. Each is a
// sentence with the full name of the changed element: a message, enum, service or method that is
// gone; a field or enum value that is gone without its number and name reserved, or has another
// number, name, type, label or oneof; a method with other messages or streams; a reservation that
// is gone or used. Additions break nothing.
std::vector<std::string> BrokenBy(const google::protobuf::FileDescriptorSet& baseline,
                                  const google::protobuf::FileDescriptorSet& current);

}  // namespace meshwright

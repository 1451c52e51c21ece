#pragma once

#include <string>
#include <vector>

namespace google::protobuf {
class FileDescriptorSet;
}

namespace meshwright {

// Returns what programs built against `baseline` would trip over in `current`, a sentence each,
// with the full name of what was changed: a message, enum, service or method that is gone; a field
// or enum value that is gone without its number and name reserved, or has another number, name,
// type, label or oneof; a method with other messages or streams; a reservation that is gone or is
// used. What is added breaks nobody.
std::vector<std::string> BrokenBy(const google::protobuf::FileDescriptorSet& baseline,
                                  const google::protobuf::FileDescriptorSet& current);

}  // namespace meshwright

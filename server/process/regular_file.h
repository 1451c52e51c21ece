#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "server/process/descriptor.h"

namespace meshwright {

// A regular file that is open for reading. The file that was looked at is the one that is read,
// whatever takes its name meanwhile.
class RegularFile {
 public:
  // Returns nullopt for a file that cannot be read, for a link (only the last part of the path is
  // looked at), and for anything else that is no regular file. A pipe does not hold up the caller.
  static std::optional<RegularFile> Open(const std::string& path);

  // The size in bytes when the file was opened.
  [[nodiscard]] std::int64_t size() const { return size_; }
  // Returns `count` bytes from `offset` (from 0), or fewer at the end of the file or after an
  // error.
  [[nodiscard]] std::string Read(std::int64_t offset, std::int64_t count) const;

 private:
  RegularFile(FileHandle file, std::int64_t size);

  FileHandle file_;
  std::int64_t size_;
};

}  // namespace meshwright

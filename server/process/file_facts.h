#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace meshwright {

// The facts by which a file is told from another that has its name later.
struct FileFacts {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::int64_t bytes = 0;
};

// Returns nullopt if there is no such file.
std::optional<FileFacts> FactsOf(const std::string& path);

// Returns the bytes that this user may still write to the file system of a file or folder; nullopt
// if that cannot be found out.
std::optional<std::int64_t> FreeBytes(const std::string& path);

}  // namespace meshwright

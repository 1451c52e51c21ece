#include "server/process/file_facts.h"

#include <sys/stat.h>
#include <sys/statvfs.h>

namespace meshwright {

std::optional<FileFacts> FactsOf(const std::string& path) {
  struct stat status = {};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return FileFacts{.device = status.st_dev, .inode = status.st_ino, .bytes = status.st_size};
}

std::optional<std::int64_t> FreeBytes(const std::string& path) {
  struct statvfs status = {};
  if (statvfs(path.c_str(), &status) != 0) return std::nullopt;
  return static_cast<std::int64_t>(status.f_bavail * status.f_frsize);
}

}  // namespace meshwright

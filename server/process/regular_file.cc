#include "server/process/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <utility>

namespace meshwright {

RegularFile::RegularFile(FileHandle file, std::int64_t size)
    : file_(std::move(file)), size_(size) {}

std::optional<RegularFile> RegularFile::Open(const std::string& path) {
  FileHandle file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  struct stat status = {};
  if (!file.is_open() || fstat(file.number(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  return RegularFile(std::move(file), status.st_size);
}

std::string RegularFile::Read(std::int64_t offset, std::int64_t count) const {
  std::string text(static_cast<std::size_t>(count), '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t read = pread(file_.number(), text.data() + size, text.size() - size,
                               offset + static_cast<std::int64_t>(size));
    if (read <= 0) break;
    size += static_cast<std::size_t>(read);
  }
  text.resize(size);
  return text;
}

}  // namespace meshwright

#include "cli/input/whole_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>
#include <system_error>

#include "recorder/store/file_system.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

absl::Status CannotWrite(const std::string& path) {
  return absl::UnavailableError(fmt::format(
      "cannot write {}: {}", path, std::error_code(errno, std::generic_category()).message()));
}

absl::Status WriteAll(int descriptor, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return CannotWrite(path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return fsync(descriptor) == 0 ? absl::OkStatus() : CannotWrite(path);
}

// Gives a file its name. On file systems that cannot rename without replacing, a link does it.
absl::Status GiveName(const std::string& part, const std::string& path, bool replaces) {
  int code =
      renameat2(AT_FDCWD, part.c_str(), AT_FDCWD, path.c_str(), replaces ? 0 : RENAME_NOREPLACE);
  if (code != 0 && errno == EINVAL && !replaces) code = link(part.c_str(), path.c_str());
  if (code == 0) return SyncFolderOf(path);
  if (errno != EEXIST) return CannotWrite(path);
  return absl::AlreadyExistsError(fmt::format("{} exists; use --replace to overwrite it", path));
}

}  // namespace

absl::Status WriteWholeFile(const std::string& path, std::string_view text, bool replaces) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);  // an error shows below
  const std::string part = fmt::format("{}.{}-{:08x}.part", path, getpid(), std::random_device()());
  const int descriptor = open(part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor < 0) return CannotWrite(path);
  absl::Status status = WriteAll(descriptor, text, path);
  close(descriptor);
  if (status.ok()) status = GiveName(part, path, replaces);
  unlink(part.c_str());  // already gone if it was renamed
  return status;
}

}  // namespace meshwright

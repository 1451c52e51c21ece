#include "recorder/store/file_system.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string_view>
#include <system_error>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

namespace fs = std::filesystem;

struct NetworkFileSystem {
  std::uint32_t type;
  std::string_view name;
};

// The types of network file systems from statfs(2), <linux/magic.h> and the table of coreutils'
// stat. FUSE is not listed, because its type does not distinguish a local file system from sshfs.
// Nor is 9p, by which some sandboxes provide local disks.
constexpr NetworkFileSystem kNetworkFileSystems[] = {
    {0x00006969, "NFS"},    {0x0000517B, "SMB"},   {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB2"},
    {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},  {0x00C36400, "CephFS"}, {0x19830326, "BeeGFS"},
    {0x5346414F, "AFS"},    {0x6B414653, "AFS"},   {0x73757245, "Coda"},   {0x0000564C, "NCP"},
    {0x01161970, "GFS2"},   {0x7461636F, "OCFS2"}, {0xAAD7AAEA, "PanFS"},  {0x20030528, "PVFS2"},
};

absl::Status SystemError(std::string_view what, const std::string& path, std::error_code error) {
  const std::string message = fmt::format("{} '{}': {}", what, path, error.message());
  if (error == std::errc::permission_denied) {
    return WithReason(absl::PermissionDeniedError(message), "STORE_IO");
  }
  return WithReason(absl::UnavailableError(message), "STORE_IO");
}

std::error_code LastError() { return {errno, std::generic_category()}; }

}  // namespace

absl::StatusOr<std::string> ResolveStorePath(const std::string& path, bool creates_folder) {
  if (path.empty()) return absl::InvalidArgumentError("store path is empty; must name a file");
  std::error_code error;
  const fs::path resolved = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) return SystemError("cannot resolve", path, error);
  if (fs::is_directory(resolved, error)) {
    return absl::InvalidArgumentError(
        fmt::format("store path '{}' is a folder; must name a file", path));
  }
  if (creates_folder) {
    const fs::path folder = resolved.parent_path();
    const bool is_new = fs::create_directories(folder, error);
    if (is_new) fs::permissions(folder, fs::perms::owner_all, error);
    if (error) return SystemError("cannot create the folder of", path, error);
  }
  return resolved.string();
}

absl::Status CheckLocalFileSystem(const std::string& path) {
  struct statfs facts = {};
  const std::string folder = fs::path(path).parent_path().string();
  if (statfs(path.c_str(), &facts) != 0) {
    if (errno != ENOENT) return SystemError("cannot examine", path, LastError());
    if (statfs(folder.c_str(), &facts) != 0) {
      // A reader of a store whose folder is missing gets that error from a later step.
      if (errno == ENOENT) return absl::OkStatus();
      return SystemError("cannot examine", folder, LastError());
    }
  }
  return CheckFileSystemType(path, static_cast<std::uint32_t>(facts.f_type));
}

absl::Status CheckFileSystemType(const std::string& path, std::uint32_t type) {
  for (const NetworkFileSystem& row : kNetworkFileSystems) {
    if (row.type != type) continue;
    return WithReason(
        absl::FailedPreconditionError(fmt::format(
            "store '{}' is on a network file system ({}), where its locks are not safe; keep it on "
            "a local disk, and let other machines reach it with --server",
            path, row.name)),
        "NETWORK_FILE_SYSTEM");
  }
  return absl::OkStatus();
}

absl::Status SyncFolderOf(const std::string& path) {
  const std::string folder = fs::path(path).parent_path().string();
  const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return SystemError("cannot open", folder, LastError());
  const int code = fsync(descriptor);
  const std::error_code error = LastError();
  close(descriptor);
  return code == 0 ? absl::OkStatus() : SystemError("cannot sync", folder, error);
}

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwright {

// The absolute path of a store with symbolic links resolved, so that two names of one file share
// one lock. `creates_folder`: makes the missing folders above it.
absl::StatusOr<std::string> ResolveStorePath(const std::string& path, bool creates_folder);

// FAILED_PRECONDITION with reason NETWORK_FILE_SYSTEM when `path`, or its folder while it does not
// exist, lies on a network or cluster file system: SQLite's WAL needs shared memory and locks that
// work, and such systems break them, among them the file that several
// nodes of one job share.
absl::Status CheckLocalFileSystem(const std::string& path);

// The same for a given statfs(2) type; apart, so that a test needs no such mount.
absl::Status CheckFileSystemType(const std::string& path, std::uint32_t type);

// Makes a rename or a new file in `path`'s folder durable.
absl::Status SyncFolderOf(const std::string& path);

}  // namespace meshwright

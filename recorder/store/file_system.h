#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace meshwright {

// Returns the absolute path of a store with symbolic links resolved, so that two names of one file
// share one lock. `creates_folder` creates the missing folders above it.
absl::StatusOr<std::string> ResolveStorePath(const std::string& path, bool creates_folder);

// Returns FAILED_PRECONDITION with reason NETWORK_FILE_SYSTEM if `path`, or its folder as long as
// it does not exist, is on a network or cluster file system. SQLite's WAL needs working shared
// memory and locks. Such file systems, among them those that several nodes of one job share, do not
// provide these.
absl::Status CheckLocalFileSystem(const std::string& path);

// Does the same for a given statfs(2) type; a function of its own, so that a test needs no such
// mount.
absl::Status CheckFileSystemType(const std::string& path, std::uint32_t type);

// Makes a rename or a new file in `path`'s folder durable.
absl::Status SyncFolderOf(const std::string& path);

}  // namespace meshwright

#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/process/descriptor.h"

namespace meshwright {

struct ListenSockets {
  std::vector<FileHandle> sockets = {};
  std::string address = {};    // that clients connect to, with the port that was chosen
  std::string unix_path = {};  // file to delete in the end; empty: none
};

// Listens on "HOST:PORT" (port 0: any free one), on each address of the host, or on "unix:/path".
// Returns INVALID_ARGUMENT for another text, and for a host that other machines can reach unless
// `allows_other_hosts`. Returns UNAVAILABLE with reason CANNOT_LISTEN for an address that is in use
// or not one of this machine.
absl::StatusOr<ListenSockets> Listen(const std::string& listen, bool allows_other_hosts);

// Checks the same without listening: INVALID_ARGUMENT only.
absl::Status CheckListen(const std::string& listen, bool allows_other_hosts);

}  // namespace meshwright

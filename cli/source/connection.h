#pragma once

#include "absl/status/statusor.h"
#include "cli/program/program.h"
#include "server/rpc/client/client.h"

namespace meshwright {

// Connects to the server that the flags name, with their token and over their TLS. INVALID_ARGUMENT
// names the files that cannot be read.
absl::StatusOr<Client> ConnectTo(const GlobalFlags& flags);

}  // namespace meshwright

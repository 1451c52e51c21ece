#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/auth/callers.h"
#include "server/rpc/tls.h"

namespace meshwright {

// Reads the files that the texts of `files` name. Returns nullopt if they name no certificate,
// and INVALID_ARGUMENT for files that cannot be read or that gRPC cannot use.
absl::StatusOr<std::optional<ServerTls>> ReadTls(const ServerTls& files);

// Reads the file of callers. Returns null for no file: everybody may do everything.
absl::StatusOr<std::shared_ptr<KnownCallers>> ReadCallers(const std::string& path);

// Reads the file of callers again. A file with a mistake changes nothing, and is logged.
void Reload(const std::string& path, KnownCallers* callers);

// Checks that a server may run jobs, which do whatever their requests say as this program's user:
// INVALID_ARGUMENT names each condition that is not met.
absl::Status CheckJobsAreGuarded(const std::string& callers, const std::string& listen);

}  // namespace meshwright

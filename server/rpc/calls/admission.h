#pragma once

#include <grpcpp/server_context.h>

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "server/auth/callers.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Checks that the caller may make this call, before anything is looked up. Callers show who they
// are by a token or by the certificate of their connection; a Unix socket admits only the server's
// own user, who may do everything. Without a list (null), everybody may. The status is
// UNAUTHENTICATED or PERMISSION_DENIED.
absl::Status Admit(const KnownCallers* callers, const grpc::CallbackServerContext& call,
                   std::string_view method, const google::protobuf::Message& request);

// The same for a caller who is known already.
absl::Status CheckCall(const std::optional<KnownCaller>& caller, std::string_view method,
                       const google::protobuf::Message& request);

}  // namespace meshwright

#pragma once

#include <grpcpp/server_context.h>

#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "server/auth/callers.h"
#include "server/rpc/calls/call_end.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Returns who makes a call. Callers show who they are by a token or by the certificate of their
// connection; a Unix socket admits only the server's own user, who may do everything. Returns
// nullopt for somebody else, or without a list (null).
std::optional<KnownCaller> CallerOf(const KnownCallers* callers,
                                    const grpc::CallbackServerContext& call);

// Checks that the caller may make this call, before anything is looked up. Without a list (null),
// everybody may. The status is UNAUTHENTICATED or PERMISSION_DENIED.
absl::Status Admit(const KnownCallers* callers, const ArrivedCall& call);

// The same if there is a list.
absl::Status CheckCall(const std::optional<KnownCaller>& caller, std::string_view method,
                       const google::protobuf::Message& request);

}  // namespace meshwright

#pragma once

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <optional>

#include "server/rpc/listener.h"
#include "server/rpc/tls.h"

namespace meshwright {

// The servers of gRPC share these settings: the one that serves, and the one that answers while it
// is being made.

// The time to send the last answers. gRPC's own drain would also wait for idle connections to
// close, and a client without open calls does not read from its connection.
inline constexpr std::chrono::milliseconds kGoodbye(250);

// Sets the sizes of messages and the limits of a connection, and refuses compressed messages.
void LimitConnections(grpc::ServerBuilder& builder);

// Returns what passes connections to the server that the builder is about to make.
// Its connections are encrypted if there is a certificate.
Listener::Take TakeFor(grpc::ServerBuilder& builder, const std::optional<ServerTls>& tls);

// Sets what health checks say of the whole server and of each service.
void SetServing(grpc::Server& server, bool serves);

}  // namespace meshwright

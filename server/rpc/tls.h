#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"

namespace grpc {
class ServerCredentials;
}

namespace meshwright {

// The files of a server with its certificate, the key of it, and the authority of its clients, all
// in PEM.
struct ServerTls {
  std::string certificate = {};
  std::string private_key = {};
  std::string client_authority = {};  // that signs clients' certificates; empty: none are asked for
};

// Returns INVALID_ARGUMENT for files that cannot be read, or that gRPC cannot serve with.
absl::Status CheckTls(const ServerTls& files);

// Returns credentials that read the files again within seconds of a change, so that a certificate
// can be renewed while the server runs; without files, those of connections in clear. A client
// without a certificate can still show a token.
std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const std::optional<ServerTls>& files);

}  // namespace meshwright

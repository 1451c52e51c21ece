#include "server/rpc/tls.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <fstream>
#include <sstream>
#include <string_view>

#include "absl/status/statusor.h"
#include "search_space/base/status.h"
#include "server/process/owner.h"

namespace meshwright {
namespace {

// The pause between two looks at the files.
constexpr unsigned int kLookSeconds = 1;

grpc_ssl_client_certificate_request_type RequestOf(const ServerTls& files) {
  return files.client_authority.empty() ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                        : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY;
}

absl::StatusOr<std::string> ReadPem(std::string_view flag, const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return InvalidFields(
        {{.field = std::string(flag), .description = fmt::format("'{}'; cannot be read", path)}});
  }
  return text.str();
}

}  // namespace

absl::Status CheckTls(const ServerTls& files) {
  grpc::SslServerCredentialsOptions options(RequestOf(files));
  auto& pair = options.pem_key_cert_pairs.emplace_back();
  ASSIGN_OR_RETURN(pair.cert_chain, ReadPem("tls-cert", files.certificate));
  ASSIGN_OR_RETURN(pair.private_key, ReadPem("tls-key", files.private_key));
  if (!files.client_authority.empty()) {
    ASSIGN_OR_RETURN(options.pem_root_certs, ReadPem("tls-client-ca", files.client_authority));
  }
  // Only a server with an address says that it cannot use its certificate.
  grpc::ServerBuilder builder;
  builder.AddListeningPort(fmt::format("unix-abstract:meshwright-check-{}", OwnOwner()),
                           grpc::SslServerCredentials(options));
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) {
    return InvalidFields({{.field = "tls-cert",
                           .description = "cannot be used: the file must have certificates in PEM, "
                                          "tls-key their key, and tls-client-ca an authority"}});
  }
  server->Shutdown();
  return absl::OkStatus();
}

std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const std::optional<ServerTls>& files) {
  if (!files.has_value()) return grpc::InsecureServerCredentials();
  grpc::experimental::TlsServerCredentialsOptions options(
      std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
          files->private_key, files->certificate, files->client_authority, kLookSeconds));
  options.watch_identity_key_cert_pairs();
  if (!files->client_authority.empty()) options.watch_root_certs();
  options.set_cert_request_type(RequestOf(*files));
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace meshwright

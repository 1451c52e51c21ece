#include "server/rpc/connection_settings.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <memory>
#include <utility>

#include "meshwright/v1/catalog.grpc.pb.h"
#include "meshwright/v1/history.grpc.pb.h"
#include "meshwright/v1/placement.grpc.pb.h"
#include "meshwright/v1/service.grpc.pb.h"
#include "server/rpc/calls/limits.h"

namespace meshwright {
namespace {

// A connection that is not used for so long is closed; its client opens another when it needs one.
constexpr std::chrono::milliseconds kIdle = std::chrono::minutes(10);
// The time in which a new connection must say that it speaks HTTP/2.
constexpr std::chrono::milliseconds kHandshake = std::chrono::seconds(10);
// A connection that has been silent for so long is asked whether its client is still there.
constexpr std::chrono::milliseconds kSilence = std::chrono::minutes(2);

constexpr const char* kServiceNames[] = {
    v1::RecommendationService::service_full_name(), v1::TuningService::service_full_name(),
    v1::CatalogService::service_full_name(),        v1::ServerService::service_full_name(),
    v1::FeedbackService::service_full_name(),       v1::HistoryService::service_full_name(),
    v1::PlacementService::service_full_name()};

// Refuses compressed messages, because gRPC bounds a message only after it is decompressed: 1.5 MB
// would become 1.5 GB first.
void RefuseCompression(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

int Milliseconds(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

}  // namespace

void LimitConnections(grpc::ServerBuilder& builder) {
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  RefuseCompression(builder);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfConnection);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(kHandshake));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(kIdle));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(kSilence));
}

Listener::Take TakeFor(grpc::ServerBuilder& builder, const std::optional<ServerTls>& tls) {
  auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD, CredentialsOf(tls));
  return [to = std::shared_ptr(std::move(acceptor))](int socket, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = socket;
    parameters.fd = connection;
    to->HandleNewConnection(&parameters);
  };
}

void SetServing(grpc::Server& server, bool serves) {
  grpc::HealthCheckServiceInterface& health = *server.GetHealthCheckService();
  health.SetServingStatus("", serves);
  for (const char* name : kServiceNames) health.SetServingStatus(name, serves);
}

}  // namespace meshwright

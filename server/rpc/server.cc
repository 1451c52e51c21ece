#include "server/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <memory>
#include <utility>

#include "meshwright/v1/catalog.grpc.pb.h"
#include "meshwright/v1/history.grpc.pb.h"
#include "meshwright/v1/service.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/rpc/calls/limits.h"
#include "server/rpc/calls/work_pool.h"
#include "server/rpc/listen_socket.h"
#include "server/rpc/listener.h"
#include "server/rpc/open_connections.h"
#include "server/rpc/services/services.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

// The number of calls that may wait for a worker; further calls are refused at once.
constexpr std::size_t kWaitingCalls = 256;
constexpr std::size_t kWaitingHeavyCalls = 32;
// The time to send the last answers. gRPC's own drain would also wait for idle connections to
// close, and a client without open calls does not read from its connection.
constexpr std::chrono::milliseconds kGoodbye(250);
// A connection that is not used for so long is closed; its client opens another when it needs one.
constexpr std::chrono::milliseconds kIdle = std::chrono::minutes(10);
// The time in which a new connection must say that it speaks HTTP/2.
constexpr std::chrono::milliseconds kHandshake = std::chrono::seconds(10);
// A connection that has been silent for so long is asked whether its client is still there.
constexpr std::chrono::milliseconds kSilence = std::chrono::minutes(2);
// The open calls of one connection; clients keep further ones to themselves.
constexpr int kCallsOfConnection = 128;

// Refuses compressed messages, because gRPC bounds a message only after it is decompressed: 1.5 MB
// would become 1.5 GB first.
void RefuseCompression(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

// A client without a certificate can still show a token.
std::shared_ptr<grpc::ServerCredentials> CredentialsOf(const std::optional<ServerTls>& tls) {
  if (!tls.has_value()) return grpc::InsecureServerCredentials();
  grpc::SslServerCredentialsOptions options(tls->client_authority.empty()
                                                ? GRPC_SSL_DONT_REQUEST_CLIENT_CERTIFICATE
                                                : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  options.pem_root_certs = tls->client_authority;
  options.pem_key_cert_pairs.push_back({tls->private_key, tls->certificate});
  return grpc::SslServerCredentials(options);
}

int Milliseconds(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

void LimitConnections(grpc::ServerBuilder& builder) {
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kCallsOfConnection);
  builder.AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(kHandshake));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_IDLE_MS, Milliseconds(kIdle));
  builder.AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(kSilence));
}

constexpr const char* kServiceNames[] = {
    v1::RecommendationService::service_full_name(), v1::TuningService::service_full_name(),
    v1::CatalogService::service_full_name(),        v1::ServerService::service_full_name(),
    v1::FeedbackService::service_full_name(),       v1::HistoryService::service_full_name()};

}  // namespace

struct Server::State {
  State(const ServerOptions& options_in, const Knowledge& knowledge, Engine& engine)
      : options(options_in),
        pool({.threads = options_in.worker_count + 1,
              .waiting = kWaitingCalls,
              .caller_threads = options_in.worker_count,
              .caller_waiting = kWaitingCalls / 4}),
        heavy_pool({.waiting = kWaitingHeavyCalls, .caller_waiting = kWaitingHeavyCalls / 4}),
        context{knowledge,
                engine,
                pool,
                heavy_pool,
                options_in.open_model,
                options_in.cost_models,
                options_in.list_cost_models,
                options_in.callers.get()},
        recommendation(MakeRecommendationService(context)),
        tuning(MakeTuningService(context, {.heartbeat = options_in.heartbeat,
                                           .limit = options_in.watch_limit,
                                           .host_limit = options_in.host_watch_limit})),
        catalog(MakeCatalogService(context)),
        server(MakeServerService(context)),
        feedback(MakeFeedbackService(context)),
        history(MakeHistoryService(context)) {}

  absl::Status Listen();
  absl::Status TakeConnections(
      ListenSockets sockets,
      std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor);

  const ServerOptions options;
  WorkPool pool;
  WorkPool heavy_pool;
  const ServiceContext context;
  std::unique_ptr<grpc::Service> recommendation;
  std::unique_ptr<ClosableService> tuning;
  std::unique_ptr<grpc::Service> catalog;
  std::unique_ptr<grpc::Service> server;
  std::unique_ptr<grpc::Service> feedback;
  std::unique_ptr<grpc::Service> history;
  std::string address;
  std::unique_ptr<grpc::Server> grpc_server;  // uses all members above
  std::unique_ptr<Listener> listener;         // passes connections to the server
};

absl::Status Server::State::Listen() {
  const bool is_guarded = options.tls.has_value() && options.callers != nullptr;
  ASSIGN_OR_RETURN(ListenSockets sockets,
                   meshwright::Listen(options.listen, options.allows_other_hosts || is_guarded));
  address = sockets.address;
  // Both are plug-ins of the process, not of one builder. Setting them again changes nothing.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  RefuseCompression(builder);
  LimitConnections(builder);
  auto acceptor = builder.experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      CredentialsOf(options.tls));
  builder.RegisterService(recommendation.get());
  builder.RegisterService(&tuning->service());
  builder.RegisterService(catalog.get());
  builder.RegisterService(server.get());
  builder.RegisterService(feedback.get());
  builder.RegisterService(history.get());
  grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr) return absl::InternalError("gRPC does not start");
  for (const char* name : kServiceNames) {
    grpc_server->GetHealthCheckService()->SetServingStatus(name, true);
  }
  return TakeConnections(std::move(sockets), std::move(acceptor));
}

absl::Status Server::State::TakeConnections(
    ListenSockets sockets,
    std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> acceptor) {
  const auto take = [to = std::shared_ptr(std::move(acceptor))](int socket, int connection) {
    grpc::experimental::ExternalConnectionAcceptor::NewConnectionParameters parameters;
    parameters.listener_fd = socket;
    parameters.fd = connection;
    to->HandleNewConnection(&parameters);
  };
  const ConnectionLimits limits = {.all = options.connection_limit,
                                   .host = options.host_connection_limit};
  ASSIGN_OR_RETURN(listener, Listener::Start(std::move(sockets), limits, take));
  return absl::OkStatus();
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const Knowledge& knowledge, Engine& engine) {
  auto state = std::make_unique<State>(options, knowledge, engine);
  RETURN_IF_ERROR(state->Listen());
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() { Shutdown(); }

const std::string& Server::address() const { return state_->address; }

void Server::Shutdown() {
  if (state_->grpc_server == nullptr) return;
  state_->grpc_server->GetHealthCheckService()->SetServingStatus(false);
  state_->tuning->Close();
  const auto drained_by = std::chrono::steady_clock::now() + state_->options.drain;
  state_->pool.Drain(state_->options.drain);
  state_->heavy_pool.Drain(
      std::chrono::ceil<std::chrono::milliseconds>(drained_by - std::chrono::steady_clock::now()));
  if (state_->listener != nullptr) state_->listener->Stop();
  state_->grpc_server->Shutdown(std::chrono::system_clock::now() + kGoodbye);
  state_->grpc_server->Wait();
  state_->grpc_server.reset();
}

}  // namespace meshwright

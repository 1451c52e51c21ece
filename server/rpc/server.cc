#include "server/rpc/server.h"

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "meshwright/v1/catalog.grpc.pb.h"
#include "meshwright/v1/history.grpc.pb.h"
#include "meshwright/v1/service.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/rpc/calls/limits.h"
#include "server/rpc/calls/work_pool.h"
#include "server/rpc/services/services.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
namespace {

// The number of calls that may wait for a worker; further calls are refused at once.
constexpr std::size_t kWaitingCalls = 256;
// The time to send the last answers. gRPC's own drain would also wait for idle connections to
// close, and a client without open calls does not read from its connection.
constexpr std::chrono::milliseconds kGoodbye(250);
constexpr std::string_view kUnixPrefix = "unix:";

// Returns the host of "HOST:PORT" or "[HOST]:PORT".
std::string_view HostOf(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return host;
}

bool IsLocal(std::string_view address) {
  if (address.starts_with(kUnixPrefix)) return true;
  const std::string_view host = HostOf(address);
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

absl::Status CheckAddress(const ServerOptions& options) {
  if (options.listen.find(':') == std::string::npos) {
    return InvalidFields(
        {{.field = "listen",
          .description = fmt::format("'{}'; must be HOST:PORT or unix:/path", options.listen)}});
  }
  if (IsLocal(options.listen) || options.allows_other_hosts) return absl::OkStatus();
  return InvalidFields(
      {{.field = "listen",
        .description = fmt::format("'{}'; anybody who can reach it could use the server: listen on "
                                   "127.0.0.1 or unix:/path, or allow it with --insecure-listen",
                                   options.listen)}});
}

// Makes a Unix socket accessible only to its owner.
void RestrictSocket(const std::string& address) {
  if (!address.starts_with(kUnixPrefix)) return;
  using std::filesystem::perms;
  std::error_code ignored;  // an abstract socket has no file
  std::filesystem::permissions(address.substr(kUnixPrefix.size()),
                               perms::owner_read | perms::owner_write, ignored);
}

std::string ReachableAddress(const std::string& listen, int port) {
  if (listen.starts_with(kUnixPrefix)) return listen;
  return fmt::format("{}:{}", listen.substr(0, listen.rfind(':')), port);
}

// Refuses compressed messages, because gRPC bounds a message only after it is decompressed: 1.5 MB
// would become 1.5 GB first.
void RefuseCompression(grpc::ServerBuilder& builder) {
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder.AddChannelArgument(GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0);
}

constexpr const char* kServiceNames[] = {
    v1::RecommendationService::service_full_name(), v1::TuningService::service_full_name(),
    v1::CatalogService::service_full_name(),        v1::ServerService::service_full_name(),
    v1::FeedbackService::service_full_name(),       v1::HistoryService::service_full_name()};

}  // namespace

struct Server::State {
  State(const ServerOptions& options_in, const Knowledge& knowledge, Engine& engine)
      : options(options_in),
        pool(options_in.worker_count, kWaitingCalls),
        context{knowledge,
                engine,
                pool,
                options_in.open_model,
                options_in.cost_models,
                options_in.list_cost_models},
        recommendation(MakeRecommendationService(context)),
        tuning(MakeTuningService(context, options_in.heartbeat)),
        catalog(MakeCatalogService(context)),
        server(MakeServerService(context)),
        feedback(MakeFeedbackService(context)),
        history(MakeHistoryService(context)) {}

  absl::Status Listen();

  const ServerOptions options;
  WorkPool pool;
  const ServiceContext context;
  std::unique_ptr<grpc::Service> recommendation;
  std::unique_ptr<ClosableService> tuning;
  std::unique_ptr<grpc::Service> catalog;
  std::unique_ptr<grpc::Service> server;
  std::unique_ptr<grpc::Service> feedback;
  std::unique_ptr<grpc::Service> history;
  std::string address;
  std::unique_ptr<grpc::Server> grpc_server;  // last, because it uses all members above
};

absl::Status Server::State::Listen() {
  // Both are plug-ins of the process, not of one builder. Setting them again changes nothing.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.SetMaxSendMessageSize(kMaxMessageBytes);
  // Without this, a second server on the same port would silently get half of the calls.
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  RefuseCompression(builder);
  int port = 0;
  builder.AddListeningPort(options.listen, grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(recommendation.get());
  builder.RegisterService(&tuning->service());
  builder.RegisterService(catalog.get());
  builder.RegisterService(server.get());
  builder.RegisterService(feedback.get());
  builder.RegisterService(history.get());
  grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr) {
    return WithReason(
        absl::UnavailableError(fmt::format("cannot listen on '{}': in use, or not an address of "
                                           "this machine",
                                           options.listen)),
        "CANNOT_LISTEN");
  }
  RestrictSocket(options.listen);
  address = ReachableAddress(options.listen, port);
  for (const char* name : kServiceNames) {
    grpc_server->GetHealthCheckService()->SetServingStatus(name, true);
  }
  return absl::OkStatus();
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const Knowledge& knowledge, Engine& engine) {
  RETURN_IF_ERROR(CheckAddress(options));
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
  state_->pool.Drain(state_->options.drain);
  state_->grpc_server->Shutdown(std::chrono::system_clock::now() + kGoodbye);
  state_->grpc_server->Wait();
  state_->grpc_server.reset();
}

}  // namespace meshwright

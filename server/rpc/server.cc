#include "server/rpc/server.h"

#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "search_space/base/status.h"
#include "server/rpc/calls/limits.h"
#include "server/rpc/calls/work_pool.h"
#include "server/rpc/connection_settings.h"
#include "server/rpc/entrance.h"
#include "server/rpc/listener.h"
#include "server/rpc/open_connections.h"
#include "server/rpc/services/audit.h"
#include "server/rpc/services/server_info.h"
#include "server/rpc/services/services.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {
v1::GetServerInfoResponse InfoOf(const ServerOptions& options, const Knowledge& knowledge,
                                 const Engine& engine) {
  const auto jobs = engine.queries().CountOpenJobs();
  return DescribeServer(knowledge, engine.schema_version(),
                        {.cost_models = options.cost_models,
                         .job_templates = options.jobs.templates->Current()->names(),
                         .study_device_seconds = options.jobs.study_device_seconds,
                         .quota = options.quota,
                         .connection_limit = options.connection_limit,
                         .host_connection_limit = options.host_connection_limit,
                         .watch_limit = options.watch_limit,
                         .host_watch_limit = options.host_watch_limit,
                         .store = options.store_size ? options.store_size() : StoreSize(),
                         .allows_jobs = engine.allows_jobs(),
                         .open_jobs = jobs.ok() ? std::optional(*jobs) : std::nullopt});
}

Reception ReceptionOf(const ServerOptions& options, const Engine& engine) {
  return {
      .callers = options.callers.get(), .on_end = options.on_call_end, .audit = AuditTo(engine)};
}

struct Server::State {
  State(const ServerOptions& options_in, const Knowledge& knowledge, Engine& engine)
      : options(options_in),
        pool({.threads = options_in.worker_count + 1,
              .waiting = kWaitingCalls,
              .caller_threads = options_in.worker_count,
              .caller_waiting = kWaitingCallsOfConnection}),
        heavy_pool(
            {.waiting = kWaitingHeavyCalls, .caller_waiting = kWaitingHeavyCallsOfConnection}),
        context{knowledge,
                engine,
                pool,
                heavy_pool,
                options_in.open_model,
                options.jobs,
                [this, &knowledge, &engine] { return InfoOf(options, knowledge, engine); },
                options_in.list_cost_models,
                options_in.list_callers,
                ReceptionOf(options, engine)},
        recommendation(MakeRecommendationService(context)),
        tuning(MakeTuningService(context, {.heartbeat = options_in.heartbeat,
                                           .limit = options_in.watch_limit,
                                           .host_limit = options_in.host_watch_limit})),
        catalog(MakeCatalogService(context)),
        server(MakeServerService(context)),
        feedback(MakeFeedbackService(context)),
        history(MakeHistoryService(context)),
        placement(MakePlacementService(context)) {}

  absl::Status Serve(std::unique_ptr<Entrance> opened);

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
  std::unique_ptr<grpc::Service> placement;
  std::unique_ptr<grpc::Server> grpc_server;  // uses all members above
  std::unique_ptr<Entrance> entrance;         // passes connections to the server
};

absl::Status Server::State::Serve(std::unique_ptr<Entrance> opened) {
  // Both are plug-ins of the process, not of one builder. Setting them again changes nothing.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();

  grpc::ServerBuilder builder;
  LimitConnections(builder);
  Listener::Take take = TakeFor(builder, options.tls);
  builder.RegisterService(recommendation.get());
  builder.RegisterService(&tuning->service());
  builder.RegisterService(catalog.get());
  builder.RegisterService(placement.get());
  builder.RegisterService(server.get());
  builder.RegisterService(feedback.get());
  builder.RegisterService(history.get());
  grpc_server = builder.BuildAndStart();
  if (grpc_server == nullptr) return absl::InternalError("gRPC does not start");
  meshwright::SetServing(*grpc_server, true);
  entrance = std::move(opened);
  entrance->PassTo(std::move(take));
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Entrance>> OpenEntrance(const ServerOptions& options) {
  const bool is_guarded = options.tls.has_value() && options.callers != nullptr;
  return Entrance::Open(
      {.listen = options.listen,
       .allows_other_hosts = options.allows_other_hosts || is_guarded,
       .limits = {.all = options.connection_limit, .host = options.host_connection_limit},
       .tls = options.tls});
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const Knowledge& knowledge, Engine& engine) {
  ASSIGN_OR_RETURN(std::unique_ptr<Entrance> entrance, OpenEntrance(options));
  return Start(options, knowledge, engine, std::move(entrance));
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerOptions& options,
                                                      const Knowledge& knowledge, Engine& engine,
                                                      std::unique_ptr<Entrance> entrance) {
  auto state = std::make_unique<State>(options, knowledge, engine);
  RETURN_IF_ERROR(state->Serve(std::move(entrance)));
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() { Shutdown(); }

const std::string& Server::address() const { return state_->entrance->address(); }

ServerLoad Server::load() const {
  const WorkPool::Load calls = state_->pool.load();
  const WorkPool::Load heavy = state_->heavy_pool.load();
  return {.waiting_calls = calls.waiting,
          .running_calls = calls.running,
          .waiting_heavy_calls = heavy.waiting,
          .running_heavy_calls = heavy.running,
          .open_watches = state_->tuning->open_stream_count()};
}

void Server::SetServing(bool serves) { meshwright::SetServing(*state_->grpc_server, serves); }

void Server::Shutdown() {
  if (state_->grpc_server == nullptr) return;
  state_->grpc_server->GetHealthCheckService()->SetServingStatus(false);
  state_->tuning->Close();
  const auto drained_by = std::chrono::steady_clock::now() + state_->options.drain;
  state_->pool.Drain(state_->options.drain);
  state_->heavy_pool.Drain(
      std::chrono::ceil<std::chrono::milliseconds>(drained_by - std::chrono::steady_clock::now()));
  state_->entrance->Close();
  state_->grpc_server->Shutdown(std::chrono::system_clock::now() + kGoodbye);
  state_->grpc_server->Wait();
  state_->grpc_server.reset();
}

}  // namespace meshwright

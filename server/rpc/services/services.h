#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/impl/service_type.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "meshwright/v1/catalog.pb.h"
#include "server/convert/question_answers.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/call_end.h"
#include "server/rpc/calls/limits.h"
#include "server/rpc/calls/work_pool.h"
#include "server/rpc/services/job_templates.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

struct WatchOptions {
  std::chrono::milliseconds heartbeat = std::chrono::seconds(15);
  int limit = 4096;       // open watches of the server
  int host_limit = 2048;  // open watches of one machine
  int connection_limit = kWatchesOfConnection;
};

// The context that the services of one server share. It outlives them.
struct ServiceContext {
  const Knowledge& knowledge;
  Engine& engine;
  WorkPool& pool;                       // for answers that somebody waits for
  WorkPool& heavy_pool;                 // for calls that may take minutes
  const OpenPlanModel open_model = {};  // null if there are no vendors' models
  const JobRules& jobs;
  const std::function<v1::GetServerInfoResponse()> server_info = {};
  const std::function<v1::ListCostModelsResponse()> list_cost_models = {};
  const std::function<v1::ListCallersResponse()> list_callers = {};
  const Reception reception = {};
};

// Returns what the services answer questions from. `context` must outlive it.
inline QuestionContext QuestionContextOf(const ServiceContext& context, std::stop_token cancel) {
  return {.knowledge = context.knowledge,
          .history = [&engine = context.engine](
                         std::optional<std::int64_t> up_to) { return engine.History(up_to); },
          .open_model = context.open_model,
          .cancel = std::move(cancel),
          .answers = &context.engine.answers()};
}

// A service whose streams must be told that the server stops. Close() is called once, from the
// thread that stops the server and before gRPC's own shutdown. It may race with calls.
class ClosableService {
 public:
  ClosableService() = default;
  ClosableService(const ClosableService&) = delete;
  ClosableService& operator=(const ClosableService&) = delete;
  virtual ~ClosableService() = default;
  virtual grpc::Service& service() = 0;
  virtual void Close() = 0;
  [[nodiscard]] virtual int open_stream_count() const = 0;
};

std::unique_ptr<grpc::Service> MakeRecommendationService(const ServiceContext& context);
std::unique_ptr<ClosableService> MakeTuningService(const ServiceContext& context,
                                                   const WatchOptions& watches);
std::unique_ptr<grpc::Service> MakeCatalogService(const ServiceContext& context);
std::unique_ptr<grpc::Service> MakeServerService(const ServiceContext& context);
std::unique_ptr<grpc::Service> MakeFeedbackService(const ServiceContext& context);
std::unique_ptr<grpc::Service> MakePlacementService(const ServiceContext& context);
std::unique_ptr<grpc::Service> MakeHistoryService(const ServiceContext& context);

// Returns what refuses every call while the server starts.
std::unique_ptr<grpc::CallbackGenericService> MakeStartingService();

}  // namespace meshwright

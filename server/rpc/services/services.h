#pragma once

#include <grpcpp/impl/service_type.h>

#include <chrono>
#include <functional>
#include <memory>

#include "meshwright/v1/catalog.pb.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/work_pool.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// The context that the services of one server share. It outlives them.
struct ServiceContext {
  const Knowledge& knowledge;
  Engine& engine;
  WorkPool& pool;
  const OpenPlanModel open_model = {};              // null if there are no vendors' models
  const std::vector<std::string> cost_models = {};  // their names
  const std::function<v1::ListCostModelsResponse()> list_cost_models = {};
};

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
};

std::unique_ptr<grpc::Service> MakeRecommendationService(const ServiceContext& context);
std::unique_ptr<ClosableService> MakeTuningService(const ServiceContext& context,
                                                   std::chrono::milliseconds heartbeat);
std::unique_ptr<grpc::Service> MakeCatalogService(const ServiceContext& context);
std::unique_ptr<grpc::Service> MakeServerService(const ServiceContext& context);
std::unique_ptr<grpc::Service> MakeFeedbackService(const ServiceContext& context);
std::unique_ptr<grpc::Service> MakeHistoryService(const ServiceContext& context);

}  // namespace meshwright

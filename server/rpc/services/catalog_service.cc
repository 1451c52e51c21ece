#include <memory>

#include "meshwright/v1/catalog.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/convert/catalog_wire.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/calls/pooled_reactor.h"
#include "server/rpc/services/services.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"

namespace meshwright {
namespace {

class CatalogService final : public v1::CatalogService::CallbackService {
 public:
  explicit CatalogService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* ListChips(grpc::CallbackServerContext* context,
                                      const v1::ListChipsRequest* request,
                                      v1::ListChipsResponse* response) override {
    return Answer({context_.reception, *context, "ListChips", *request, response}, [&] {
      *response = meshwright::ListChips(context_.knowledge.chips);
      return absl::OkStatus();
    });
  }

  grpc::ServerUnaryReactor* GetChip(grpc::CallbackServerContext* context,
                                    const v1::GetChipRequest* request,
                                    v1::GetChipResponse* response) override {
    return Answer(
        {context_.reception, *context, "GetChip", *request, response}, [&]() -> absl::Status {
          ASSIGN_OR_RETURN(*response,
                           meshwright::GetChip(context_.knowledge.chips, request->chip_id()));
          return absl::OkStatus();
        });
  }

 private:
  const ServiceContext context_;
};

class ServerService final : public v1::ServerService::CallbackService {
 public:
  explicit ServerService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* GetServerInfo(grpc::CallbackServerContext* context,
                                          const v1::GetServerInfoRequest* request,
                                          v1::GetServerInfoResponse* response) override {
    return Answer({context_.reception, *context, "GetServerInfo", *request, response}, [&] {
      *response = context_.server_info();
      return absl::OkStatus();
    });
  }

  // Uses the pool, because every file is read whole.
  grpc::ServerUnaryReactor* ListCostModels(grpc::CallbackServerContext* context,
                                           const v1::ListCostModelsRequest* request,
                                           v1::ListCostModelsResponse* response) override {
    return PooledReactor::Start(
        context_.pool, {context_.reception, *context, "ListCostModels", *request, response},
        [this, response](const std::stop_token& /*cancel*/) {
          if (context_.list_cost_models) {
            *response = context_.list_cost_models();
          }
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* ListCallers(grpc::CallbackServerContext* context,
                                        const v1::ListCallersRequest* request,
                                        v1::ListCallersResponse* response) override {
    return Answer({context_.reception, *context, "ListCallers", *request, response}, [&] {
      if (context_.list_callers) *response = context_.list_callers();
      return absl::OkStatus();
    });
  }

 private:
  const ServiceContext context_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeCatalogService(const ServiceContext& context) {
  return std::make_unique<CatalogService>(context);
}

std::unique_ptr<grpc::Service> MakeServerService(const ServiceContext& context) {
  return std::make_unique<ServerService>(context);
}

}  // namespace meshwright

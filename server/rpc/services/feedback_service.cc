#include <memory>
#include <optional>
#include <stop_token>

#include "meshwright/v1/history.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/convert/history_wire.h"
#include "server/convert/job_report_wire.h"
#include "server/engine/engine.h"
#include "server/engine/wall_clock.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/calls/pooled_reactor.h"
#include "server/rpc/services/services.h"

namespace meshwright {
namespace {

class FeedbackService final : public v1::FeedbackService::CallbackService {
 public:
  explicit FeedbackService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* CreateJobReport(grpc::CallbackServerContext* context,
                                            const v1::CreateJobReportRequest* request,
                                            v1::CreateJobReportResponse* response) override {
    return PooledReactor::Start(
        context_.pool, {context_.reception, *context, "CreateJobReport", *request, response},
        [this, request, response](const std::stop_token& /*cancel*/) -> absl::Status {
          ASSIGN_OR_RETURN(*response, meshwright::CreateJobReport(*request, Reports()));
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* BatchCreateJobReports(
      grpc::CallbackServerContext* context, const v1::BatchCreateJobReportsRequest* request,
      v1::BatchCreateJobReportsResponse* response) override {
    return PooledReactor::Start(
        context_.pool, {context_.reception, *context, "BatchCreateJobReports", *request, response},
        [this, request, response](const std::stop_token& /*cancel*/) -> absl::Status {
          ASSIGN_OR_RETURN(*response, meshwright::BatchCreateJobReports(*request, Reports()));
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* ListJobReports(grpc::CallbackServerContext* context,
                                           const v1::ListJobReportsRequest* request,
                                           v1::ListJobReportsResponse* response) override {
    return Answer({context_.reception, *context, "ListJobReports", *request, response},
                  [&]() -> absl::Status {
                    ASSIGN_OR_RETURN(*response,
                                     meshwright::ListJobReports(context_.engine.queries(), *request,
                                                                context_.knowledge));
                    return absl::OkStatus();
                  });
  }

 private:
  [[nodiscard]] ReportContext Reports() const {
    return {.knowledge = context_.knowledge,
            .store = context_.engine.store(),
            .time_ms = NowMs(),
            .history = [this] { return context_.engine.History(std::nullopt); },
            .on_measurement = context_.engine.measurement_listener()};
  }

  const ServiceContext context_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeFeedbackService(const ServiceContext& context) {
  return std::make_unique<FeedbackService>(context);
}

}  // namespace meshwright

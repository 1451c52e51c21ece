#include <memory>
#include <stop_token>

#include "meshwright/v1/placement.grpc.pb.h"
#include "search_space/base/status.h"
#include "server/placement/place_jobs.h"
#include "server/rpc/calls/pooled_reactor.h"
#include "server/rpc/services/answer_margin.h"
#include "server/rpc/services/search_time.h"
#include "server/rpc/services/services.h"

namespace meshwright {
namespace {

class PlacementService final : public v1::PlacementService::CallbackService {
 public:
  explicit PlacementService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* PlaceJobs(grpc::CallbackServerContext* context,
                                      const v1::PlaceJobsRequest* request,
                                      v1::PlaceJobsResponse* response) override {
    const auto end = SearchTimeOf(*context, margin_, Longest::kAsAsked).end;
    return PooledReactor::Start(
        context_.heavy_pool, {context_.reception, *context, "PlaceJobs", *request, response},
        [this, request, response, end](const std::stop_token& cancel) -> absl::Status {
          ASSIGN_OR_RETURN(*response,
                           AnswerPlaceJobs(*request, QuestionContextOf(context_, cancel), end));
          return absl::OkStatus();
        });
  }

 private:
  const ServiceContext context_;
  const AnswerMargin margin_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakePlacementService(const ServiceContext& context) {
  return std::make_unique<PlacementService>(context);
}

}  // namespace meshwright

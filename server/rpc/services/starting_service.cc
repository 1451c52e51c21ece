#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <memory>

#include "search_space/base/status.h"
#include "server/convert/status_wire.h"
#include "server/rpc/services/services.h"

namespace meshwright {
namespace {

// Refuses one call.
class Refusal final : public grpc::ServerGenericBidiReactor {
 public:
  explicit Refusal(const grpc::Status& status) { Finish(status); }
  void OnDone() override { delete this; }
};

class StartingService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* /*context*/) override {
    return new Refusal(status_);
  }

 private:
  const grpc::Status status_ = ToGrpc(ServerStarting());
};

}  // namespace

std::unique_ptr<grpc::CallbackGenericService> MakeStartingService() {
  return std::make_unique<StartingService>();
}

}  // namespace meshwright

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "server/auth/callers.h"
#include "server/rpc/calls/work_pool.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// A call that the pool answers. Cancelling the call stops its work, and takes it out of the queue
// if it has not begun; so does the call's deadline.
class PooledReactor final : public grpc::ServerUnaryReactor {
 public:
  using Work = std::function<absl::Status(std::stop_token)>;

  struct Call {
    const KnownCallers* callers = nullptr;  // null: everybody may call
    const char* method = "";
    const grpc::CallbackServerContext& context;
    const google::protobuf::Message& request;
  };

  // Admits the call (admission.h) before it waits for its turn. `call` must outlive the call,
  // except for itself.
  static PooledReactor* Start(WorkPool& pool, const Call& call, Work work);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  PooledReactor(WorkPool& pool, const Call& call, Work work);
  void Run();

  WorkPool& pool_;
  const Call call_;
  const Work work_;
  std::stop_source cancel_;
};

}  // namespace meshwright

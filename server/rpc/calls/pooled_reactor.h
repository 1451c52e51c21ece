#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/calls/call_end.h"
#include "server/rpc/calls/work_pool.h"

namespace meshwright {

// A call that the pool answers. Cancelling the call stops its work, and takes it out of the queue
// if it has not begun; so does the call's deadline.
class PooledReactor final : public grpc::ServerUnaryReactor {
 public:
  using Work = std::function<absl::Status(std::stop_token)>;

  // Admits the call (admission.h) before it waits for its turn.
  static PooledReactor* Start(WorkPool& pool, const IncomingCall& call, Work work);

  void OnCancel() override;
  void OnDone() override { delete this; }

 private:
  PooledReactor(WorkPool& pool, const IncomingCall& call, Work work);
  void Run();
  // Ends a call whose work was not run.
  void Refuse(const absl::Status& status);

  WorkPool& pool_;
  const Reception& reception_;
  const ArrivedCall call_;
  const Work work_;
  std::stop_source cancel_;
};

}  // namespace meshwright

#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <stop_token>

#include "absl/status/status.h"
#include "server/rpc/calls/work_pool.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// A call that the pool answers. Cancelling the call stops its work.
class PooledReactor final : public grpc::ServerUnaryReactor {
 public:
  using Work = std::function<absl::Status(std::stop_token)>;

  // `method` and `request` must outlive the call.
  static PooledReactor* Start(WorkPool& pool, const char* method,
                              const google::protobuf::Message& request, Work work);

  void OnCancel() override { cancel_.request_stop(); }
  void OnDone() override { delete this; }

 private:
  PooledReactor(const char* method, const google::protobuf::Message& request, Work work);
  void Run();

  const char* const method_;
  const google::protobuf::Message& request_;
  const Work work_;
  std::stop_source cancel_;
};

}  // namespace meshwright

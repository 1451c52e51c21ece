#pragma once

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/statusor.h"
#include "meshwright/costmodel/v1/costmodel.grpc.pb.h"
#include "server/plugins/wire/call_limits.h"

namespace meshwright {

// Only for .cc files that call a model: it includes gRPC.

// Returns a channel to a model's socket once it serves. UNAVAILABLE if nobody does; CANCELLED.
absl::StatusOr<std::shared_ptr<grpc::Channel>> ConnectModel(const std::string& socket,
                                                            std::chrono::milliseconds timeout,
                                                            const std::stop_token& cancel = {});

// The context of one call, with a deadline; cancelled when the caller's stop token is.
class CallContext {
 public:
  explicit CallContext(const CallLimits& limits)
      : on_stop_(limits.cancel, [this] { context_.TryCancel(); }) {
    context_.set_deadline(std::chrono::system_clock::now() + limits.timeout);
  }
  grpc::ClientContext* get() { return &context_; }

 private:
  grpc::ClientContext context_;
  std::stop_callback<std::function<void()>> on_stop_;
};

absl::Status FromModel(const grpc::Status& status);

// Calls a unary method: CallModel<XResponse>(stub, &Stub::X, request, limits).
template <typename Response, typename Stub, typename Request>
absl::StatusOr<Response> CallModel(Stub& stub,
                                   grpc::Status (Stub::*method)(grpc::ClientContext*,
                                                                const Request&, Response*),
                                   const Request& request, const CallLimits& limits) {
  CallContext context(limits);
  Response response;
  const grpc::Status status = (stub.*method)(context.get(), request, &response);
  if (!status.ok()) return FromModel(status);
  return response;
}

}  // namespace meshwright

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string_view>

#include "absl/status/status.h"

namespace meshwright {

// Runs one call's work and logs it. Nothing that it throws gets into gRPC: an exception becomes
// INTERNAL with an incident id that is in the log.
absl::Status RunCall(std::string_view method, const std::function<absl::Status()>& work);

// Answers a short call on the thread it came in on.
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext& context, std::string_view method,
                                 const std::function<absl::Status()>& work);

}  // namespace meshwright

#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string_view>

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Returns INVALID_ARGUMENT that names every string of a request with a control character or bytes
// that are not UTF-8, so that nothing below has to expect them.
absl::Status CheckTexts(const google::protobuf::Message& request);

// Checks the texts of a call's request, runs its work and logs it. Nothing that the work throws
// gets into gRPC: an exception becomes INTERNAL with an incident id that is in the log.
absl::Status RunCall(std::string_view method, const google::protobuf::Message& request,
                     const std::function<absl::Status()>& work);

// Answers a short call on the thread it came in on.
grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext& context, std::string_view method,
                                 const google::protobuf::Message& request,
                                 const std::function<absl::Status()>& work);

}  // namespace meshwright

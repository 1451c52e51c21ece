#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <functional>

#include "absl/status/status.h"
#include "server/auth/callers.h"
#include "server/rpc/calls/call_end.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Checks the lists and the strings of a request, so that nothing below has to expect endless or bad
// ones. Returns INVALID_ARGUMENT that names every field that is too long (request_limits.h), or
// else every string with a control character or bytes that are not UTF-8.
absl::Status CheckRequest(const google::protobuf::Message& request);

// Checks the request of a call, runs its work, and logs and tells its end (call_end.h). No
// exception reaches gRPC: it becomes INTERNAL with an incident id that is also in the log.
absl::Status RunCall(const Reception& reception, const ArrivedCall& call,
                     const std::function<absl::Status()>& work);

// A call as its handler gets it. All of it outlives the call.
struct IncomingCall {
  const Reception& reception;
  grpc::CallbackServerContext& context;
  const char* method = "";
  const google::protobuf::Message& request;
  const google::protobuf::Message* response = nullptr;  // as in ArrivedCall
};

// Returns the call with who makes it.
ArrivedCall Arrive(const IncomingCall& call);

// Admits a short call (admission.h) and answers it on the thread on which it arrived.
grpc::ServerUnaryReactor* Answer(const IncomingCall& call,
                                 const std::function<absl::Status()>& work);

// The same for work that needs to know who calls: nullopt is nobody known.
grpc::ServerUnaryReactor* AnswerCaller(
    const IncomingCall& call,
    const std::function<absl::Status(const std::optional<KnownCaller>&)>& work);

}  // namespace meshwright

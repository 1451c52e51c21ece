#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/auth/callers.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// A call that has arrived.
struct ArrivedCall {
  std::string_view method = {};    // "Recommend"
  std::string_view protocol = {};  // grpc or http
  const google::protobuf::Message& request;
  // The message that the work fills; null: there is none, or a stream of them.
  const google::protobuf::Message* response = nullptr;
  std::optional<KnownCaller> caller = {};  // nullopt: nobody known, or everybody may call
  std::string peer = {};                   // as gRPC names it; empty: not known
  std::chrono::steady_clock::time_point time = std::chrono::steady_clock::now();
};

// A call that has ended.
struct EndedCall {
  std::string_view method = {};
  std::string_view protocol = {};
  absl::StatusCode code = absl::StatusCode::kOk;
  std::chrono::duration<double> time{0};  // since it arrived, so with its time in a queue
  std::optional<Role> role = {};          // absent: nobody known, or everybody may call
  std::string source = {};                // RecommendResponse.source; empty for other calls
};

// How the calls of a server are received. It outlives them.
struct Reception {
  const KnownCallers* callers = nullptr;  // null: everybody may call
  // Is told of each call, from any thread and before its caller; null: nobody is.
  std::function<void(const EndedCall&)> on_end = {};
};

// Logs the end of a call in one line, and tells it to the reception.
void EndCall(const Reception& reception, const ArrivedCall& call, const absl::Status& status);

}  // namespace meshwright

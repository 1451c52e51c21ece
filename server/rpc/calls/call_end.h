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
  std::string caller = {};                // name of who has this role; empty without a role
  std::string source = {};                // RecommendResponse.source; empty for other calls
};

// A call that changed something, or was refused by its arguments, its state or its caller's role.
struct AuditedCall {
  std::string caller = {};  // empty: everybody may call
  std::string role = {};
  std::string peer = {};
  std::string_view protocol = {};
  std::string_view method = {};
  std::string study_id = {};  // that it was about or has made; empty: none
  std::string code = {};
  std::string reason = {};
};

// How the calls of a server are received. It outlives them.
struct Reception {
  const KnownCallers* callers = nullptr;  // null: everybody may call
  // Is told of each call, from any thread and before its caller; null: nobody is.
  std::function<void(const EndedCall&)> on_end = {};
  // Keeps each audited call, from any thread and before its caller is answered; null: nobody does.
  // Calls of callers that are not known only stand in the log, so that nobody can fill a store.
  std::function<void(const AuditedCall&)> audit = {};
};

// Logs the end of a call in one line, and tells it to the reception.
void EndCall(const Reception& reception, const ArrivedCall& call, const absl::Status& status);

}  // namespace meshwright

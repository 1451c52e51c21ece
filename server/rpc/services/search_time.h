#pragma once

#include <grpcpp/server_context.h>

#include <chrono>
#include <string>

#include "server/rpc/services/answer_margin.h"

namespace meshwright {

// The time that a call's search has.
struct SearchTime {
  std::chrono::system_clock::time_point end = {};  // the deadline minus the margin
  std::string note = {};  // what the server decided about it; empty: nothing
};

// The longest time of a call. A call for the heavy pool may take as long as its caller waits.
enum class Longest { kLimited, kAsAsked };

SearchTime SearchTimeOf(const grpc::CallbackServerContext& context, const AnswerMargin& margin,
                        Longest longest);

}  // namespace meshwright

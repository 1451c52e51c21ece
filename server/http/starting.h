#pragma once

#include <memory>
#include <mutex>

#include "server/http/http_message.h"

namespace meshwright {

// Answers every request with 503 and reason SERVER_STARTING until it is given the handler of a
// server that is ready. May be used from any thread.
class StartingGate {
 public:
  [[nodiscard]] HttpAnswer Answer(const HttpRequest& request) const;
  void PassTo(HttpHandler handler);

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const HttpHandler> handler_;
};

}  // namespace meshwright

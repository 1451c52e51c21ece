#include "server/http/starting.h"

#include <utility>

#include "server/convert/status_wire.h"
#include "server/http/http_status.h"

namespace meshwright {

HttpAnswer StartingGate::Answer(const HttpRequest& request) const {
  std::shared_ptr<const HttpHandler> handler;
  {
    const std::lock_guard lock(mutex_);
    handler = handler_;
  }
  if (handler == nullptr) return {.response = ErrorResponse(ServerStarting())};
  return (*handler)(request);
}

void StartingGate::PassTo(HttpHandler handler) {
  const std::lock_guard lock(mutex_);
  handler_ = std::make_shared<const HttpHandler>(std::move(handler));
}

}  // namespace meshwright

#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "server/rpc/listen_socket.h"
#include "server/rpc/open_connections.h"

namespace meshwright {

// Accepts connections for gRPC. gRPC 1.51's own listener stops for ever when it once fails to
// accept, as when there are too many open files, and it has no limits.
class Listener {
 public:
  // Takes over a connection, and closes it in the end.
  using Take = std::function<void(int listener, int connection)>;

  // Passes connections on, from a thread of its own.
  static absl::StatusOr<std::unique_ptr<Listener>> Start(ListenSockets sockets,
                                                         const ConnectionLimits& limits, Take take);
  ~Listener();  // calls Stop()
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // Closes the sockets. When it returns, no connection is being passed on. May be called again.
  void Stop();

 private:
  struct State;
  explicit Listener(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshwright

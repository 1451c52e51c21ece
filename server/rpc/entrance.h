#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "server/rpc/listener.h"
#include "server/rpc/open_connections.h"
#include "server/rpc/tls.h"

namespace meshwright {

struct EntranceOptions {
  std::string listen = {};          // as ServerOptions::listen
  bool allows_other_hosts = false;  // as ServerOptions::allows_other_hosts
  ConnectionLimits limits = {};
  std::optional<ServerTls> tls = {};
};

// The listening end of a server. It takes connections from the moment it opens. Until there is a
// server that they can be passed to, it answers health checks with NOT_SERVING, and every call with
// UNAVAILABLE, reason SERVER_STARTING and the time after which to ask again.
class Entrance {
 public:
  // Returns INVALID_ARGUMENT for a host that is not allowed, and UNAVAILABLE with reason
  // CANNOT_LISTEN for an address that is not available.
  static absl::StatusOr<std::unique_ptr<Entrance>> Open(const EntranceOptions& options);
  ~Entrance();  // calls Close()
  Entrance(const Entrance&) = delete;
  Entrance& operator=(const Entrance&) = delete;

  // Returns the address that clients connect to, with the port that was chosen.
  [[nodiscard]] const std::string& address() const;

  // Passes on all further connections. The earlier ones end within a second, and their clients
  // connect again. Called at most once.
  void PassTo(Listener::Take take);

  // Stops to listen. When it returns, no connection is being passed on. May be called again.
  void Close();

 private:
  struct State;
  explicit Entrance(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshwright

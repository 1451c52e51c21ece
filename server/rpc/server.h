#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/catalog.pb.h"
#include "server/engine/engine.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

struct ServerOptions {
  // "HOST:PORT" (port 0: any free one) or "unix:/path".
  std::string listen = "127.0.0.1:50551";
  bool allows_other_hosts = false;  // else only loopback and Unix sockets: there is no TLS yet
  int worker_count = 2;             // threads that answer Recommend and EvaluatePlans
  std::chrono::milliseconds heartbeat = std::chrono::seconds(15);  // of WatchStudy
  std::chrono::milliseconds drain = std::chrono::seconds(5);       // that calls get to end in
  OpenPlanModel open_model = {};  // vendors' models; none: there are none. Outlive the server
  std::vector<std::string> cost_models = {};                          // their names
  std::function<v1::ListCostModelsResponse()> list_cost_models = {};  // their files as they are now
};

// The gRPC face of an engine: its services, the standard health service (SERVING for the whole
// and for each service) and reflection.
class Server {
 public:
  // `knowledge` and `engine` must outlive the server. Errors: a host that is not allowed
  // (INVALID_ARGUMENT), an address that cannot be had (UNAVAILABLE, reason CANNOT_LISTEN).
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const Knowledge& knowledge, Engine& engine);
  ~Server();  // Shutdown()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Returns the address that clients connect to, with the port that was chosen.
  [[nodiscard]] const std::string& address() const;

  // Shows NOT_SERVING, closes streams, lets calls end for options.drain and cancels the rest.
  // Returns when no call is left. May be called again.
  void Shutdown();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshwright

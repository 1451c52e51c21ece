#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/catalog.pb.h"
#include "server/auth/callers.h"
#include "server/engine/engine.h"
#include "server/engine/queue/quota.h"
#include "server/engine/store_files.h"
#include "server/rpc/calls/call_end.h"
#include "server/rpc/entrance.h"
#include "server/rpc/services/job_templates.h"
#include "server/rpc/tls.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

struct ServerOptions {
  // "HOST:PORT" (port 0: any free one) or "unix:/path".
  std::string listen = "127.0.0.1:50551";
  // Otherwise only loopback and Unix sockets, unless there are both TLS and a list of callers.
  bool allows_other_hosts = false;
  std::optional<ServerTls> tls = {};                       // absent: connections are not encrypted
  std::shared_ptr<const KnownCallers> callers = nullptr;   // null: everybody may do everything
  std::function<void(const EndedCall&)> on_call_end = {};  // as Reception::on_end
  // Threads that answer Recommend and the like for one connection. Others have one more.
  int worker_count = 2;
  std::chrono::milliseconds heartbeat = std::chrono::seconds(15);  // pause, in streams
  std::chrono::milliseconds drain = std::chrono::seconds(5);       // time that calls get to end in
  OpenPlanModel open_model = {};  // opens vendors' models, which outlive the server; null: none
  std::vector<std::string> cost_models = {};                          // their names
  std::function<v1::ListCostModelsResponse()> list_cost_models = {};  // reads their files anew
  std::function<v1::ListCallersResponse()> list_callers = {};         // null: nobody counts calls
  std::function<StoreSize()> store_size = {};                         // null: it is not known
  JobRules jobs = {};     // the jobs that studies may run
  StudyQuota quota = {};  // the engine's, for GetServerInfo
  // The limits of what all callers together, and those on one machine, may have open.
  int connection_limit = 4096;
  int host_connection_limit = 2048;
  int watch_limit = 4096;
  int host_watch_limit = 2048;
};

// The calls that a server is occupied with.
struct ServerLoad {
  int waiting_calls = 0;  // that need a search or a write
  int running_calls = 0;
  int waiting_heavy_calls = 0;
  int running_heavy_calls = 0;
  int open_watches = 0;
};

// Returns how a server with these options describes itself.
v1::GetServerInfoResponse InfoOf(const ServerOptions& options, const Knowledge& knowledge,
                                 const Engine& engine);

// Returns how calls to a server with these options are received, over gRPC and over HTTP. `options`
// and `engine` must outlive it.
Reception ReceptionOf(const ServerOptions& options, const Engine& engine);

// Opens the entrance of a server, which listens before there is an engine.
absl::StatusOr<std::unique_ptr<Entrance>> OpenEntrance(const ServerOptions& options);

// The gRPC interface of an engine: its services, the standard health service (SERVING for the whole
// and for each service) and reflection.
class Server {
 public:
  // Starts a server. `knowledge` and `engine` must outlive it. Returns INVALID_ARGUMENT for a host
  // that is not allowed, and UNAVAILABLE with reason CANNOT_LISTEN for an address that is not
  // available.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const Knowledge& knowledge, Engine& engine);
  // Does the same with an entrance that was opened before.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerOptions& options,
                                                       const Knowledge& knowledge, Engine& engine,
                                                       std::unique_ptr<Entrance> entrance);
  ~Server();  // calls Shutdown()
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Returns the address that clients connect to, with the port that was chosen.
  [[nodiscard]] const std::string& address() const;

  [[nodiscard]] ServerLoad load() const;

  // Sets what health checks say, of the whole and of each service. Not called after Shutdown.
  void SetServing(bool serves);

  // Reports NOT_SERVING, closes streams, gives calls options.drain to end and cancels the rest.
  // Returns when no call is left. May be called again.
  void Shutdown();

 private:
  struct State;
  explicit Server(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshwright

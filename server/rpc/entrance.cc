#include "server/rpc/entrance.h"

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/health_check_service_interface.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include "search_space/base/status.h"
#include "server/rpc/connection_settings.h"
#include "server/rpc/listen_socket.h"
#include "server/rpc/services/services.h"

namespace meshwright {
namespace {

// Connections to the waiting room are short, so that their clients soon reach the server that is
// ready. gRPC ends them between two calls; a stream has a moment more.
constexpr std::chrono::milliseconds kConnectionAge = std::chrono::seconds(1);
constexpr std::chrono::milliseconds kStreamGrace(500);
// The time after which none of them is left; gRPC varies their age by a tenth.
constexpr std::chrono::milliseconds kWaitingRoomEnd = 2 * kConnectionAge + kStreamGrace;

int CountOf(std::chrono::milliseconds time) { return static_cast<int>(time.count()); }

}  // namespace

struct Entrance::State {
  absl::Status StartWaitingRoom(const std::optional<ServerTls>& tls);
  void Take(int socket, int connection);
  void CloseWaitingRoom();

  std::unique_ptr<grpc::CallbackGenericService> refusals = MakeStartingService();
  std::string address;
  std::mutex mutex;
  Listener::Take take;      // guarded by the mutex
  bool is_closing = false;  // guarded by the mutex
  std::condition_variable closing;
  std::unique_ptr<grpc::Server> waiting_room;  // serves until there is a server
  std::thread goodbye;                         // closes the waiting room
  std::unique_ptr<Listener> listener;          // passes connections on
};

absl::Status Entrance::State::StartWaitingRoom(const std::optional<ServerTls>& tls) {
  // The service is a plug-in of the process, not of one builder.
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  LimitConnections(builder);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, CountOf(kConnectionAge));
  builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, CountOf(kStreamGrace));
  take = TakeFor(builder, tls);
  builder.RegisterCallbackGenericService(refusals.get());
  waiting_room = builder.BuildAndStart();
  if (waiting_room == nullptr) return absl::InternalError("gRPC does not start");
  SetServing(*waiting_room, false);
  return absl::OkStatus();
}

void Entrance::State::Take(int socket, int connection) {
  const std::lock_guard lock(mutex);
  take(socket, connection);
}

void Entrance::State::CloseWaitingRoom() {
  waiting_room->Shutdown(std::chrono::system_clock::now() + kGoodbye);
  waiting_room->Wait();
}

Entrance::Entrance(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Entrance>> Entrance::Open(const EntranceOptions& options) {
  ASSIGN_OR_RETURN(ListenSockets sockets, Listen(options.listen, options.allows_other_hosts));
  auto state = std::make_unique<State>();
  state->address = sockets.address;
  RETURN_IF_ERROR(state->StartWaitingRoom(options.tls));
  ASSIGN_OR_RETURN(state->listener, Listener::Start(std::move(sockets), options.limits,
                                                    [&s = *state](int socket, int connection) {
                                                      s.Take(socket, connection);
                                                    }));
  return std::unique_ptr<Entrance>(new Entrance(std::move(state)));
}

Entrance::~Entrance() { Close(); }

const std::string& Entrance::address() const { return state_->address; }

void Entrance::PassTo(Listener::Take take) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->take = std::move(take);
  }
  state_->goodbye = std::thread([&s = *state_] {
    {
      std::unique_lock lock(s.mutex);
      s.closing.wait_for(lock, kWaitingRoomEnd, [&s] { return s.is_closing; });
    }
    s.CloseWaitingRoom();
  });
}

void Entrance::Close() {
  state_->listener->Stop();
  {
    const std::lock_guard lock(state_->mutex);
    state_->is_closing = true;
  }
  state_->closing.notify_all();
  if (state_->goodbye.joinable()) {
    state_->goodbye.join();
    state_->waiting_room.reset();
  } else if (state_->waiting_room != nullptr) {
    state_->CloseWaitingRoom();
    state_->waiting_room.reset();
  }
}

}  // namespace meshwright

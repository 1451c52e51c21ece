#include "server/rpc/listener.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "search_space/base/status.h"
#include "server/process/descriptor.h"
#include "server/rpc/open_connections.h"

namespace meshwright {
namespace {

// The pause after a failure of the system, as for lack of memory.
constexpr std::chrono::milliseconds kFailurePause(100);

}  // namespace

struct Listener::State {
  State(ListenSockets sockets_in, const ConnectionLimits& limits, Take take_in)
      : sockets(std::move(sockets_in)), open(limits), take(std::move(take_in)) {}

  void Run();
  // Accepts what waits at a socket. Returns false after a failure of the system.
  bool AcceptAll(int listener);
  // Closes one connection that waits, with the descriptor that is kept for it, so that its client
  // does not hang. Returns false if there is none.
  bool TurnOneAway(int listener);

  ListenSockets sockets;
  OpenConnections open;
  const Take take;
  Pipe stop;
  FileHandle spare;
  std::thread thread;
};

bool Listener::State::AcceptAll(int listener) {
  for (;;) {
    const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (connection < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK) return true;
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if ((errno == EMFILE || errno == ENFILE) && TurnOneAway(listener)) continue;
      return false;
    }
    if (open.Add(connection)) {
      take(listener, connection);
    } else {
      close(connection);
    }
  }
}

bool Listener::State::TurnOneAway(int listener) {
  spare.Close();
  FileHandle connection(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC));
  const bool was_there = connection.is_open();
  connection.Close();
  if (auto again = OpenEmptyInput(); again.ok()) spare = *std::move(again);
  return was_there;
}

void Listener::State::Run() {
  std::vector<pollfd> watched = {{.fd = stop.read.number(), .events = POLLIN, .revents = 0}};
  for (const FileHandle& socket : sockets.sockets) {
    watched.push_back({.fd = socket.number(), .events = POLLIN, .revents = 0});
  }
  for (;;) {
    bool has_failed = poll(watched.data(), watched.size(), -1) < 0;
    if (watched.front().revents != 0) return;
    for (std::size_t i = 1; i < watched.size(); ++i) {
      if (watched[i].revents != 0 && !AcceptAll(watched[i].fd)) has_failed = true;
    }
    if (has_failed) std::this_thread::sleep_for(kFailurePause);
  }
}

Listener::Listener(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Listener>> Listener::Start(ListenSockets sockets,
                                                          const ConnectionLimits& limits,
                                                          Take take) {
  auto state = std::make_unique<State>(std::move(sockets), limits, std::move(take));
  ASSIGN_OR_RETURN(state->stop, MakePipe());
  ASSIGN_OR_RETURN(state->spare, OpenEmptyInput());
  state->thread = std::thread([&s = *state] { s.Run(); });
  return std::unique_ptr<Listener>(new Listener(std::move(state)));
}

Listener::~Listener() { Stop(); }

void Listener::Stop() {
  if (!state_->thread.joinable()) return;
  state_->stop.write.Close();
  state_->thread.join();
  state_->sockets.sockets.clear();
  if (!state_->sockets.unix_path.empty()) unlink(state_->sockets.unix_path.c_str());
}

}  // namespace meshwright

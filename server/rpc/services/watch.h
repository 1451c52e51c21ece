#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "meshwright/v1/service.pb.h"
#include "recorder/records.h"
#include "server/engine/engine.h"
#include "server/rpc/services/services.h"

namespace meshwright {

class Watchers;

// One open WatchStudy. Its events wait in a bounded queue. A reader that falls further behind is
// closed with ABORTED, reason RESYNC, and comes back with the last revision that it has seen.
class WatchReactor final : public grpc::ServerWriteReactor<v1::WatchStudyResponse> {
 public:
  // `on_end` is told how the call ends.
  using OnEnd = std::function<void(const absl::Status&)>;

  WatchReactor(grpc::CallbackServerContext& context, Engine& engine, Watchers& watchers,
               OnEnd on_end);

  // Called by gRPC's method before it returns the reactor.
  void Follow(const std::string& study_id, std::int64_t after_revision);
  void Close(const absl::Status& status);
  void Heartbeat();

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  void Receive(const std::optional<EventRecord>& event);
  void Push(v1::WatchStudyResponse message);
  // Notes how the call ends, unless that is settled. The caller holds `mutex_`.
  void CloseWith(const absl::Status& status);
  // Starts the next write or ends the call, unless a write is under way.
  void Advance();

  grpc::CallbackServerContext& context_;
  Engine& engine_;
  Watchers& watchers_;
  const OnEnd on_end_;
  absl::Status admitted_;
  std::optional<std::int64_t> subscription_ = {};

  std::mutex mutex_;  // guards all members below; never held while gRPC is called
  std::deque<v1::WatchStudyResponse> queue_;
  v1::WatchStudyResponse current_;  // being written
  std::int64_t last_revision_ = 0;
  bool has_seen_end_ = false;
  bool is_writing_ = false;
  std::chrono::steady_clock::time_point write_started_at_;  // start of the last write
  bool is_finished_ = false;
  std::optional<absl::Status> closing_ = {};  // the status that ends the call once the queue is
                                              // empty
  std::chrono::steady_clock::time_point closed_at_;  // when `closing_` was set
};

// All open watches of a server. It limits them, sends each its heartbeats, and closes them when the
// server stops.
class Watchers {
 public:
  explicit Watchers(const WatchOptions& options);
  ~Watchers() = default;
  Watchers(const Watchers&) = delete;
  Watchers& operator=(const Watchers&) = delete;

  // Returns RESOURCE_EXHAUSTED with reason TOO_MANY_WATCHES if too many are open already.
  absl::Status Add(WatchReactor* watch, const std::string& peer);
  void Remove(WatchReactor* watch);
  void Close();                     // also closes watches that are opened later
  [[nodiscard]] int count() const;  // that are open

 private:
  void Run(const std::stop_token& stop);
  int Count(const std::string& caller) const;
  void ChangeCount(const std::string& caller, int change);

  const WatchOptions options_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  // Each watch with its peer. They are not owned: each deletes itself when it is done.
  std::map<WatchReactor*, std::string> watches_;
  std::map<std::string, int> counts_;  // by peer, and by the peer's machine
  bool is_closed_ = false;
  std::jthread thread_;  // last, because it uses all members above
};

}  // namespace meshwright

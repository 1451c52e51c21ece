#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace meshwright {

struct WorkPoolLimits {
  int threads = 1;
  std::size_t waiting = 256;  // calls that wait; further ones are refused at once
  // The shares of one caller; absent: all. Others always find a thread and room to wait.
  std::optional<int> caller_threads = {};
  std::optional<std::size_t> caller_waiting = {};
};

// A call's work, which must not throw.
struct PooledWork {
  std::function<void()> run = {};
  std::string caller = {};      // whose turn it takes
  const void* owner = nullptr;  // by which it can be taken back
};

// Threads for answers that take more than a moment, so that gRPC's own threads stay free. Callers
// take turns, so that one with many calls delays the others by one call only.
class WorkPool {
 public:
  explicit WorkPool(const WorkPoolLimits& limits);
  ~WorkPool();  // runs what is queued, then ends
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Queues work. Returns RESOURCE_EXHAUSTED with reason SERVER_BUSY if too much is waiting already,
  // so that callers do not wait beyond their deadlines, and UNAVAILABLE with reason SERVER_STOPPING
  // after Drain.
  absl::Status Submit(PooledWork work);

  // Removes work that nobody waits for any more. Returns false if it has begun.
  bool TakeBack(const void* owner);

  struct Load {
    int waiting = 0;
    int running = 0;
  };
  [[nodiscard]] Load load() const;

  // Accepts no more work and waits up to a limit for the work that it has.
  void Drain(std::chrono::milliseconds limit);

 private:
  struct Caller {
    std::deque<PooledWork> waiting = {};
    int running_count = 0;
  };

  void Run(const std::stop_token& stop);
  // Returns the caller whose turn it is; the end if none may begin work.
  std::deque<std::string>::iterator Next();
  PooledWork Begin(std::deque<std::string>::iterator turn);
  void End(const std::string& caller);

  const WorkPoolLimits limits_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::map<std::string, Caller> callers_;  // that have work waiting or running
  std::deque<std::string> turns_;          // callers that have work waiting, in their order
  std::size_t waiting_count_ = 0;
  int busy_count_ = 0;
  bool is_draining_ = false;
  std::vector<std::jthread> threads_;  // last, because they use the members above
};

}  // namespace meshwright

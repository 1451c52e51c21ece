#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "absl/status/status.h"

namespace meshwright {

// Threads for answers that take more than a moment, so that gRPC's own threads stay free. If the
// queue is full, work is refused at once, so that callers do not wait beyond their deadlines.
class WorkPool {
 public:
  WorkPool(int thread_count, std::size_t queue_limit);
  ~WorkPool();  // runs what is queued, then ends
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // Queues work, which must not throw. Returns RESOURCE_EXHAUSTED with reason SERVER_BUSY if the
  // queue is full, and UNAVAILABLE with reason SERVER_STOPPING after Drain.
  absl::Status Submit(std::function<void()> work);

  // Accepts no more work and waits up to a limit for the work that it has.
  void Drain(std::chrono::milliseconds limit);

 private:
  void Run(const std::stop_token& stop);

  const std::size_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> queue_;
  int busy_count_ = 0;
  bool is_draining_ = false;
  std::vector<std::jthread> threads_;  // last, because they use the members above
};

}  // namespace meshwright

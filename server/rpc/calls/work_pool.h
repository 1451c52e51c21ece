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

// Threads for answers that take longer than a moment, so that gRPC's own threads stay free. A full
// queue refuses work at once instead of letting callers wait beyond their deadlines.
class WorkPool {
 public:
  WorkPool(int thread_count, std::size_t queue_limit);
  ~WorkPool();  // runs what is queued, then ends
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  // RESOURCE_EXHAUSTED with reason SERVER_BUSY when the queue is full, UNAVAILABLE with reason
  // SERVER_STOPPING after Drain. `work` must not throw.
  absl::Status Submit(std::function<void()> work);

  // Takes no more work and waits for what there is, up to a limit.
  void Drain(std::chrono::milliseconds limit);

 private:
  void Run(const std::stop_token& stop);

  const std::size_t queue_limit_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> queue_;
  int busy_count_ = 0;
  bool is_draining_ = false;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace meshwright

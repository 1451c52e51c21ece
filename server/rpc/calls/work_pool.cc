#include "server/rpc/calls/work_pool.h"

#include <fmt/format.h>

#include <utility>

#include "search_space/base/status.h"

namespace meshwright {

WorkPool::WorkPool(int thread_count, std::size_t queue_limit) : queue_limit_(queue_limit) {
  for (int i = 0; i < thread_count; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Run(stop); });
  }
}

WorkPool::~WorkPool() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

absl::Status WorkPool::Submit(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    if (is_draining_) {
      return WithReason(absl::UnavailableError("the server is stopping"), "SERVER_STOPPING");
    }
    if (queue_.size() >= queue_limit_) {
      return WithReason(absl::ResourceExhaustedError(fmt::format(
                            "too many requests: {} are waiting already", queue_.size())),
                        "SERVER_BUSY");
    }
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
  return absl::OkStatus();
}

void WorkPool::Drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  changed_.wait_for(lock, limit, [this] { return queue_.empty() && busy_count_ == 0; });
}

void WorkPool::Run(const std::stop_token& stop) {
  for (;;) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return !queue_.empty(); })) return;
      work = std::move(queue_.front());
      queue_.pop_front();
      ++busy_count_;
    }
    work();
    {
      const std::lock_guard lock(mutex_);
      --busy_count_;
    }
    changed_.notify_all();
  }
}

}  // namespace meshwright

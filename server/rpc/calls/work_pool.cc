#include "server/rpc/calls/work_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

absl::Status Busy(std::size_t count, std::string_view whose) {
  return WithReason(absl::ResourceExhaustedError(
                        fmt::format("too many requests: {} are waiting already{}", count, whose)),
                    "SERVER_BUSY");
}

}  // namespace

WorkPool::WorkPool(const WorkPoolLimits& limits) : limits_(limits) {
  for (int i = 0; i < limits.threads; ++i) {
    threads_.emplace_back([this](const std::stop_token& stop) { Run(stop); });
  }
}

WorkPool::~WorkPool() {
  for (std::jthread& thread : threads_) thread.request_stop();
}

absl::Status WorkPool::Submit(PooledWork work) {
  {
    const std::lock_guard lock(mutex_);
    if (is_draining_) {
      return WithReason(absl::UnavailableError("the server is stopping"), "SERVER_STOPPING");
    }
    if (waiting_count_ >= limits_.waiting) return Busy(waiting_count_, "");
    const auto found = callers_.find(work.caller);
    const std::size_t own = found == callers_.end() ? 0 : found->second.waiting.size();
    if (own >= limits_.caller_waiting.value_or(limits_.waiting)) {
      return Busy(own, " of this caller");
    }
    if (own == 0) turns_.push_back(work.caller);
    ++waiting_count_;
    std::deque<PooledWork>& waiting = callers_[work.caller].waiting;
    waiting.push_back(std::move(work));
  }
  changed_.notify_all();
  return absl::OkStatus();
}

bool WorkPool::TakeBack(const void* owner) {
  const std::lock_guard lock(mutex_);
  for (auto caller = callers_.begin(); caller != callers_.end(); ++caller) {
    std::deque<PooledWork>& waiting = caller->second.waiting;
    const auto found = std::ranges::find(waiting, owner, &PooledWork::owner);
    if (found == waiting.end()) continue;
    waiting.erase(found);
    --waiting_count_;
    if (waiting.empty()) {
      std::erase(turns_, caller->first);
      if (caller->second.running_count == 0) callers_.erase(caller);
    }
    changed_.notify_all();
    return true;
  }
  return false;
}

WorkPool::Load WorkPool::load() const {
  const std::lock_guard lock(mutex_);
  return {.waiting = static_cast<int>(waiting_count_), .running = busy_count_};
}

void WorkPool::Drain(std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  is_draining_ = true;
  changed_.wait_for(lock, limit, [this] { return waiting_count_ == 0 && busy_count_ == 0; });
}

std::deque<std::string>::iterator WorkPool::Next() {
  const int most = limits_.caller_threads.value_or(limits_.threads);
  return std::ranges::find_if(
      turns_, [&](const std::string& caller) { return callers_[caller].running_count < most; });
}

PooledWork WorkPool::Begin(std::deque<std::string>::iterator turn) {
  std::string name = std::move(*turn);
  turns_.erase(turn);
  Caller& caller = callers_[name];
  PooledWork work = std::move(caller.waiting.front());
  caller.waiting.pop_front();
  ++caller.running_count;
  if (!caller.waiting.empty()) turns_.push_back(std::move(name));
  --waiting_count_;
  ++busy_count_;
  return work;
}

void WorkPool::End(const std::string& caller) {
  --busy_count_;
  const auto found = callers_.find(caller);
  if (--found->second.running_count == 0 && found->second.waiting.empty()) callers_.erase(found);
}

void WorkPool::Run(const std::stop_token& stop) {
  for (;;) {
    PooledWork work;
    {
      std::unique_lock lock(mutex_);
      if (!changed_.wait(lock, stop, [this] { return Next() != turns_.end(); })) return;
      work = Begin(Next());
    }
    work.run();
    {
      const std::lock_guard lock(mutex_);
      End(work.caller);
    }
    changed_.notify_all();
  }
}

}  // namespace meshwright

#include "server/http/event_queue.h"

#include <utility>

namespace meshwright {
namespace {

constexpr std::size_t kWriteBytes = 64 << 10;

}  // namespace

void EventQueue::Push(std::string event) {
  const std::lock_guard lock(mutex_);
  if (is_ending_) return;
  if (events_.size() < limit_) {
    events_.push_back(std::move(event));
  } else {
    is_ending_ = true;
  }
}

void EventQueue::PushIfEmpty(std::string event) {
  const std::lock_guard lock(mutex_);
  if (events_.empty() && !is_ending_) events_.push_back(std::move(event));
}

void EventQueue::End() {
  const std::lock_guard lock(mutex_);
  is_ending_ = true;
}

bool EventQueue::Take(std::string& text) {
  const std::lock_guard lock(mutex_);
  text.clear();
  // Many small events, as of a replay, go out in one write.
  while (!events_.empty() && text.size() < kWriteBytes) {
    text += events_.front();
    events_.pop_front();
  }
  return !is_ending_;
}

}  // namespace meshwright

#pragma once

#include <cstddef>
#include <deque>
#include <mutex>
#include <string>

namespace meshwright {

// The events that wait to be sent to one reader. May be used from any thread.
class EventQueue {
 public:
  // `limit`: events that may wait. A reader that is slower is cut off; it comes back and gets what
  // it has missed.
  explicit EventQueue(std::size_t limit) : limit_(limit) {}

  void Push(std::string event);
  // Adds an event only if no other one waits.
  void PushIfEmpty(std::string event);
  // Takes no further events.
  void End();

  // Moves events to `text`, in place of what was there: as many as one write may send. Returns
  // false if no further events will come.
  bool Take(std::string& text);

 private:
  const std::size_t limit_;
  std::mutex mutex_;  // guards the members below
  std::deque<std::string> events_ = {};
  bool is_ending_ = false;
};

}  // namespace meshwright

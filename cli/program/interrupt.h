#pragma once

#include <signal.h>

#include <stop_token>
#include <thread>

namespace meshwright {

// Turns Ctrl-C and SIGTERM into a stop token while it lives. It must be made before any other
// thread starts, because threads inherit the blocked signals and only its own thread takes them. A
// second Ctrl-C ends the program at once with exit code 130, for work that does not look at the
// token.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] std::stop_token token() const { return source_.get_token(); }

 private:
  void Wait(const std::stop_token& end);

  sigset_t signals_ = {};
  sigset_t earlier_ = {};
  std::stop_source source_;
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace meshwright

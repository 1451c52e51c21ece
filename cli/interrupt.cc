#include "cli/interrupt.h"

#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "cli/exit_code.h"

namespace meshwright {
namespace {

constexpr timespec kPoll = {.tv_sec = 0, .tv_nsec = 50'000'000};  // how late the thread may end

}  // namespace

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals_, &earlier_);
  thread_ = std::jthread([this](const std::stop_token& end) { Wait(end); });
}

Interrupt::~Interrupt() {
  thread_.request_stop();
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &earlier_, nullptr);
}

void Interrupt::Wait(const std::stop_token& end) {
  while (!end.stop_requested()) {
    const int signal = sigtimedwait(&signals_, nullptr, &kPoll);
    if (signal <= 0) continue;
    if (source_.stop_requested()) _exit(kExitInterrupted);
    source_.request_stop();
  }
}

}  // namespace meshwright

#include "cli/program/interrupt.h"

#include <pthread.h>
#include <unistd.h>

#include "cli/program/terminal.h"
#include "server/process/exit_code.h"

namespace meshwright {
namespace {

constexpr int kWake = SIGUSR1;  // tells the waiting thread that it is no longer needed

}  // namespace

Interrupt::Interrupt() {
  sigemptyset(&signals_);
  sigaddset(&signals_, SIGINT);
  sigaddset(&signals_, SIGTERM);
  sigaddset(&signals_, kWake);
  pthread_sigmask(SIG_BLOCK, &signals_, &earlier_);
  thread_ = std::jthread([this](const std::stop_token& end) { Wait(end); });
}

Interrupt::~Interrupt() {
  thread_.request_stop();
  pthread_kill(thread_.native_handle(), kWake);
  thread_.join();
  pthread_sigmask(SIG_SETMASK, &earlier_, nullptr);
}

void Interrupt::Wait(const std::stop_token& end) {
  while (!end.stop_requested()) {
    const int signal = sigwaitinfo(&signals_, nullptr);
    if (signal <= 0 || signal == kWake) continue;
    if (source_.stop_requested()) {
      OverwriteStderrLine("");
      _exit(kExitInterrupted);
    }
    source_.request_stop();
  }
}

}  // namespace meshwright

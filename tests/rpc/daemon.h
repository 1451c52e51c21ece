#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "server/process/descriptor.h"

namespace meshwright {

// The real meshwrightd in a process of its own, on a free port of 127.0.0.1 unless its flags state
// another address.
class Daemon {
 public:
  // Starts the program and waits for the line that says where it listens. address() stays empty if
  // there was none.
  explicit Daemon(std::vector<std::string> flags) : Daemon(std::move(flags), Wait::kUntilReady) {}
  // Starts the program, and returns without waiting for that line.
  enum class Wait { kUntilReady, kNot };
  Daemon(std::vector<std::string> flags, Wait wait);
  ~Daemon();  // kill -9, if it still runs
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Waits for the line that says where it listens.
  void WaitUntilReady();

  const std::string& address() const { return address_; }
  pid_t pid() const { return pid_; }

  // Sends the signal and waits for the end. Returns the exit code, or 128 + the signal that ended
  // it.
  int Stop(int signal);

 private:
  pid_t pid_ = 0;  // 0 once it has ended
  FileHandle output_;
  std::string address_;
};

}  // namespace meshwright

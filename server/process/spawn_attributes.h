#pragma once

#include <signal.h>
#include <spawn.h>

namespace meshwright {

// For posix_spawn: a child that hears signals as a shell's would. Programs that wait for signals
// on a thread of their own block them, and children inherit that.
class SpawnAttributes {
 public:
  explicit SpawnAttributes(bool has_own_session = false) {
    posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes_, &none);
    sigset_t usual;
    sigemptyset(&usual);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGALRM, SIGPIPE, SIGCHLD}) {
      sigaddset(&usual, signal);
    }
    posix_spawnattr_setsigdefault(&attributes_, &usual);
    const int flags =
        POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | (has_own_session ? POSIX_SPAWN_SETSID : 0);
    posix_spawnattr_setflags(&attributes_, static_cast<short>(flags));
  }
  SpawnAttributes(const SpawnAttributes&) = delete;
  SpawnAttributes& operator=(const SpawnAttributes&) = delete;
  ~SpawnAttributes() { posix_spawnattr_destroy(&attributes_); }

  [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_ = {};
};

}  // namespace meshwright

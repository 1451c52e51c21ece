#pragma once

#include <mutex>

namespace meshwright {

// A connection as others hold it: it may be gone by the time that they have something for it, and
// then nothing happens. The connection calls Detach before it ends. May be used from any thread.
template <typename Connection>
class Detachable {
 public:
  explicit Detachable(Connection& connection) : connection_(&connection) {}
  Detachable(const Detachable&) = delete;
  Detachable& operator=(const Detachable&) = delete;

  // Calls `call` with the connection, unless it is gone. It stays while the call runs.
  template <typename Call>
  void Use(const Call& call) {
    const std::lock_guard lock(mutex_);
    if (connection_ != nullptr) call(*connection_);
  }
  // Nothing reaches the connection once this has returned.
  void Detach() {
    const std::lock_guard lock(mutex_);
    connection_ = nullptr;
  }

 private:
  std::mutex mutex_;
  Connection* connection_;
};

}  // namespace meshwright

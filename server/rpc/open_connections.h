#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace meshwright {

struct ConnectionLimits {
  int all = 4096;   // further ones are closed at once
  int host = 2048;  // of one machine
};

// Counts connections that somebody else closes without telling: a connection has ended when its
// descriptor is closed or belongs to another file. Used by one thread.
class OpenConnections {
 public:
  explicit OpenConnections(const ConnectionLimits& limits) : limits_(limits) {}

  // Returns false if there are too many already.
  bool Add(int connection);

 private:
  struct Connection {
    int descriptor = -1;
    std::uint64_t number = 0;  // by which the kernel knows the socket
    std::string host = {};
  };

  [[nodiscard]] bool HasRoom(const std::string& host) const;
  void ForgetEnded();

  const ConnectionLimits limits_;
  std::vector<Connection> open_;
  std::map<std::string, int> counts_;  // by host
  std::chrono::steady_clock::time_point forgot_at_ = {};
};

}  // namespace meshwright

#include "server/rpc/open_connections.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <array>
#include <cstring>
#include <iterator>
#include <utility>

namespace meshwright {
namespace {

// The connections that have ended are looked for at most this often.
constexpr std::chrono::milliseconds kCountPause(100);

// The machine at the other end. All users of a Unix socket are one.
std::string HostOf(int connection) {
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  getpeername(connection, static_cast<sockaddr*>(static_cast<void*>(&storage)), &size);
  std::array<char, INET6_ADDRSTRLEN> text = {};
  if (storage.ss_family == AF_INET) {
    sockaddr_in address = {};
    std::memcpy(&address, &storage, sizeof(address));
    inet_ntop(AF_INET, &address.sin_addr, text.data(), text.size());
  } else if (storage.ss_family == AF_INET6) {
    sockaddr_in6 address = {};
    std::memcpy(&address, &storage, sizeof(address));
    inet_ntop(AF_INET6, &address.sin6_addr, text.data(), text.size());
  }
  return text.data();
}

// Returns the number by which the kernel knows a socket; 0 if the descriptor is not one any more.
std::uint64_t SocketNumber(int descriptor) {
  struct stat status = {};
  return fstat(descriptor, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace

bool OpenConnections::Add(int connection) {
  std::string host = HostOf(connection);
  if (!HasRoom(host)) ForgetEnded();
  if (!HasRoom(host)) return false;
  ++counts_[host];
  open_.push_back({connection, SocketNumber(connection), std::move(host)});
  return true;
}

bool OpenConnections::HasRoom(const std::string& host) const {
  const auto count = counts_.find(host);
  return std::ssize(open_) < limits_.all &&
         (count == counts_.end() || count->second < limits_.host);
}

void OpenConnections::ForgetEnded() {
  const auto now = std::chrono::steady_clock::now();
  if (now - forgot_at_ < kCountPause) return;
  forgot_at_ = now;
  std::erase_if(open_, [this](const Connection& connection) {
    if (SocketNumber(connection.descriptor) == connection.number) return false;
    const auto count = counts_.find(connection.host);
    if (--count->second == 0) counts_.erase(count);
    return true;
  });
}

}  // namespace meshwright

#include "server/rpc/listen_socket.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr std::string_view kUnixPrefix = "unix:";

struct HostPort {
  std::string host = {};
  std::uint16_t port = 0;
};

absl::Status BadListen(const std::string& listen, std::string_view rule) {
  return InvalidFields({{.field = "listen", .description = fmt::format("'{}'; {}", listen, rule)}});
}

absl::Status NotLocal(const std::string& listen) {
  return BadListen(listen,
                   "anybody who can reach it could use the server: listen on 127.0.0.1 or "
                   "unix:/path, or state --tls-cert, --tls-key and --callers, or allow it with "
                   "--insecure-listen");
}

absl::Status CannotListen(const std::string& listen, std::string_view why) {
  return WithReason(absl::UnavailableError(fmt::format("cannot listen on '{}': {}", listen, why)),
                    "CANNOT_LISTEN");
}

std::string ErrorText() { return std::error_code(errno, std::system_category()).message(); }

std::optional<HostPort> ReadHostPort(std::string_view listen) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  HostPort read = {.host = std::string(listen.substr(0, colon))};
  const char* const end = listen.data() + listen.size();
  const auto port = std::from_chars(listen.data() + colon + 1, end, read.port);
  if (port.ec != std::errc() || port.ptr != end) return std::nullopt;
  if (read.host.starts_with('[') && read.host.ends_with(']')) {
    read.host = read.host.substr(1, read.host.size() - 2);
  }
  return read;
}

// Returns true for a host whose name says that it is this machine. Its addresses are checked too.
bool IsNamedLocal(std::string_view host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

bool IsLoopback(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    sockaddr_in v4 = {};
    std::memcpy(&v4, &address, sizeof(v4));
    return (ntohl(v4.sin_addr.s_addr) >> 24) == 127;
  }
  sockaddr_in6 v6 = {};
  std::memcpy(&v6, &address, sizeof(v6));
  return address.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
}

void SetOption(const FileHandle& socket, int level, int name, int value) {
  setsockopt(socket.number(), level, name, &value, sizeof(value));
}

FileHandle NewSocket(int family) {
  return FileHandle(socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Returns a socket that listens, or none with `errno`.
FileHandle ListenOn(const addrinfo& info, std::uint16_t port) {
  sockaddr_storage address = {};
  std::memcpy(&address, info.ai_addr, info.ai_addrlen);
  if (port != 0) {  // both kinds of address have their port at the same place
    sockaddr_in with_port = {};
    std::memcpy(&with_port, &address, sizeof(with_port));
    with_port.sin_port = htons(port);
    std::memcpy(&address, &with_port, sizeof(with_port));
  }
  FileHandle socket = NewSocket(info.ai_family);
  if (!socket.is_open()) return socket;
  SetOption(socket, SOL_SOCKET, SO_REUSEADDR, 1);
  SetOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);  // connections inherit it
  if (info.ai_family == AF_INET6) SetOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
  const auto* const bound = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (bind(socket.number(), bound, info.ai_addrlen) != 0 ||
      ::listen(socket.number(), SOMAXCONN) != 0) {
    return FileHandle();
  }
  return socket;
}

std::uint16_t PortOf(const FileHandle& socket) {
  sockaddr_in address = {};
  sockaddr_storage storage = {};
  socklen_t size = sizeof(storage);
  getsockname(socket.number(), static_cast<sockaddr*>(static_cast<void*>(&storage)), &size);
  std::memcpy(&address, &storage, sizeof(address));
  return ntohs(address.sin_port);
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

AddressList Resolve(const HostPort& at) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const std::string port = std::to_string(at.port);
  if (getaddrinfo(at.host.c_str(), port.c_str(), &hints, &found) != 0) found = nullptr;
  return {found, &freeaddrinfo};
}

absl::StatusOr<HostPort> ReadHost(const std::string& listen, bool allows_other_hosts) {
  auto at = ReadHostPort(listen);
  if (!at.has_value()) {
    return BadListen(listen, "must be HOST:PORT with a port up to 65535, or unix:/path");
  }
  if (!allows_other_hosts && !IsNamedLocal(at->host)) return NotLocal(listen);
  return *std::move(at);
}

absl::StatusOr<ListenSockets> ListenOnHost(const std::string& listen, bool allows_other_hosts) {
  ASSIGN_OR_RETURN(const HostPort at, ReadHost(listen, allows_other_hosts));
  const AddressList addresses = Resolve(at);
  if (addresses == nullptr) return CannotListen(listen, "not an address of this machine");
  ListenSockets listening;
  std::string why;
  std::uint16_t port = at.port;
  for (const addrinfo* info = addresses.get(); info != nullptr; info = info->ai_next) {
    if (!allows_other_hosts && !IsLoopback(*info->ai_addr)) return NotLocal(listen);
    FileHandle socket = ListenOn(*info, port);
    if (!socket.is_open()) {
      // Not every machine has both kinds of address of a name such as localhost.
      if (errno == EADDRINUSE && at.port != 0) return CannotListen(listen, ErrorText());
      why = ErrorText();
      continue;
    }
    port = PortOf(socket);
    listening.sockets.push_back(std::move(socket));
  }
  if (listening.sockets.empty()) return CannotListen(listen, why);
  listening.address = fmt::format("{}:{}", listen.substr(0, listen.rfind(':')), port);
  return listening;
}

// Deletes the socket of a server that has ended. Returns false if one still answers there.
bool RemoveLeftSocket(const std::string& path, const sockaddr_un& address) {
  struct stat status = {};
  if (lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode)) return true;
  const FileHandle probe = NewSocket(AF_UNIX);
  const auto* const generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (connect(probe.number(), generic, sizeof(address)) == 0 || errno == EAGAIN) return false;
  unlink(path.c_str());
  return true;
}

absl::StatusOr<std::string> ReadUnixPath(const std::string& listen) {
  std::string path = listen.substr(kUnixPrefix.size());
  if (path.starts_with("//")) path.erase(0, 2);
  constexpr std::size_t kLongest = sizeof(sockaddr_un::sun_path) - 1;
  if (path.empty() || path.size() > kLongest) {
    return BadListen(
        listen, fmt::format("{} bytes of path; must be between 1 and {}", path.size(), kLongest));
  }
  return path;
}

absl::StatusOr<ListenSockets> ListenOnPath(const std::string& listen) {
  ASSIGN_OR_RETURN(std::string path, ReadUnixPath(listen));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(static_cast<char*>(address.sun_path), path.size());
  if (!RemoveLeftSocket(path, address)) return CannotListen(listen, "in use");
  FileHandle socket = NewSocket(AF_UNIX);
  const auto* const generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  // Only its owner may use it, from before anybody can connect.
  if (!socket.is_open() || bind(socket.number(), generic, sizeof(address)) != 0 ||
      chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(socket.number(), SOMAXCONN) != 0) {
    return CannotListen(listen, ErrorText());
  }
  ListenSockets listening = {.address = listen, .unix_path = std::move(path)};
  listening.sockets.push_back(std::move(socket));
  return listening;
}

}  // namespace

absl::StatusOr<ListenSockets> Listen(const std::string& listen, bool allows_other_hosts) {
  if (listen.starts_with(kUnixPrefix)) return ListenOnPath(listen);
  return ListenOnHost(listen, allows_other_hosts);
}

absl::Status CheckListen(const std::string& listen, bool allows_other_hosts) {
  if (listen.starts_with(kUnixPrefix)) return ReadUnixPath(listen).status();
  return ReadHost(listen, allows_other_hosts).status();
}

}  // namespace meshwright

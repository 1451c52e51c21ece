#include "server/process/systemd_notice.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <cstdlib>
#include <string>

#include "server/process/descriptor.h"

namespace meshwright {

void NotifySystemd(std::string_view state) {
  const char* const stated = std::getenv("NOTIFY_SOCKET");
  if (stated == nullptr) return;
  std::string path = stated;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return;
  if (path.front() == '@') path.front() = '\0';  // an abstract name
  path.copy(static_cast<char*>(address.sun_path), path.size());
  const FileHandle socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto* const generic = static_cast<const sockaddr*>(static_cast<const void*>(&address));
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  sendto(socket.number(), state.data(), state.size(), MSG_NOSIGNAL, generic, size);
}

}  // namespace meshwright

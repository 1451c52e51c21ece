#include "server/http/listen_address.h"

#include <fmt/format.h>

#include <boost/asio/ip/address.hpp>
#include <charconv>
#include <cstddef>
#include <system_error>

#include "search_space/base/status.h"

namespace meshwright {
namespace {

absl::Status BadAddress(const std::string& listen, std::string_view flag) {
  return InvalidFields(
      {{.field = std::string(flag),
        .description = fmt::format("'{}'; must be HOST:PORT with a host of this machine only, as "
                                   "127.0.0.1:8080, because HTTP is not encrypted here",
                                   listen)}});
}

}  // namespace

absl::StatusOr<ListenAddress> ReadListenAddress(const std::string& listen, std::string_view flag) {
  const std::size_t colon = listen.rfind(':');
  if (colon == std::string::npos) return BadAddress(listen, flag);
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (host == "localhost") host = "127.0.0.1";
  std::uint16_t port = 0;
  const char* const end = listen.data() + listen.size();
  const auto read = std::from_chars(listen.data() + colon + 1, end, port);
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  if (error || read.ec != std::errc() || read.ptr != end || !address.is_loopback()) {
    return BadAddress(listen, flag);
  }
  return ListenAddress{.host = host, .port = port};
}

}  // namespace meshwright

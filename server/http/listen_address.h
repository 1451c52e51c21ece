#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace meshwright {

// An address of this machine that no other can reach.
struct ListenAddress {
  std::string host = {};  // 127.0.0.1, ::1
  std::uint16_t port = 0;
};

// Reads HOST:PORT, [HOST]:PORT or localhost:PORT. INVALID_ARGUMENT, which names the flag, for
// anything else, including hosts that others can reach.
absl::StatusOr<ListenAddress> ReadListenAddress(const std::string& listen,
                                                std::string_view flag = "http");

}  // namespace meshwright

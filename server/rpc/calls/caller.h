#pragma once

#include <string>
#include <string_view>

namespace meshwright {

// Returns the machine of a call's peer as gRPC names it: `ipv4:192.0.2.1` of
// `ipv4:192.0.2.1:50000`. All users of a Unix socket are one caller.
std::string HostOfPeer(std::string_view peer);

}  // namespace meshwright

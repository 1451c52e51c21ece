#include "server/rpc/calls/caller.h"

namespace meshwright {

std::string HostOfPeer(std::string_view peer) {
  return std::string(peer.starts_with("ip") ? peer.substr(0, peer.rfind(':')) : peer);
}

}  // namespace meshwright

#pragma once

#include <string>

namespace meshwright {

// The certificate of a server, its key, and the authority of its clients, as texts in PEM.
struct ServerTls {
  std::string certificate = {};
  std::string private_key = {};
  std::string client_authority = {};  // that signs clients' certificates; empty: none are asked for
};

}  // namespace meshwright

#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/http/http_message.h"

namespace meshwright {

struct HttpOptions {
  std::string listen = "127.0.0.1:8080";  // HOST:PORT of this machine; port 0: any free one
  std::string flag = "http";              // that stated the address, for errors
  int thread_count = 2;
  int connection_limit = 256;                                 // further ones are closed at once
  std::size_t header_limit = 16 << 10;                        // bytes of a request's header
  std::size_t body_limit = 1 << 20;                           // bytes of a request's body
  std::size_t event_limit = 4096;                             // events that may wait for one reader
  std::chrono::milliseconds idle = std::chrono::seconds(30);  // for a request, or one write
  std::chrono::milliseconds heartbeat = std::chrono::seconds(15);  // pause, in streams of events
};

// An HTTP/1.1 server of this machine's own programs. It has no TLS, so it listens on loopback only.
class HttpServer {
 public:
  // Starts to serve. Returns INVALID_ARGUMENT for an address that is not HOST:PORT with a loopback
  // host, and UNAVAILABLE with reason CANNOT_LISTEN for one that is not available.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpOptions& options,
                                                           HttpHandler handler);
  ~HttpServer();  // calls Shutdown()
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Returns HOST:PORT with the port that was chosen.
  [[nodiscard]] const std::string& address() const;

  // Takes no further connections and requests. Connections close when the request that they work on
  // is answered, and streams of events when what waits is sent. Does not wait.
  void Drain();

  // Closes all connections, after Drain() those that have not closed within `patience`; when it
  // returns, the handler is not running. May be called again.
  void Shutdown(std::chrono::milliseconds patience = std::chrono::milliseconds(0));

 private:
  struct State;
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace meshwright

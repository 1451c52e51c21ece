#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"

namespace meshwright {

struct HttpOptions {
  // holds a bearer token and is read for each request; empty: no token is sent
  std::string token_file = {};
  std::string ca_file = {};     // trusted certificates; empty: those of the system
  Seconds limit = Seconds(10);  // for a whole request with its connection
};

struct HttpRequest {
  std::string method = "GET";
  std::string url = {};   // http or https
  std::string body = {};  // JSON; empty: none
};

struct HttpResponse {
  int status = 0;
  std::string body = {};
};

// Sends a request over a connection of its own and waits for the answer; 404 and 500 are answers
// too. UNAVAILABLE if none came. It uses no proxy from the environment and follows no redirection,
// because the token is meant for one server.
absl::StatusOr<HttpResponse> SendHttp(const HttpRequest& request, const HttpOptions& options);

// Returns a text as it may stand within a URL.
std::string UrlEncoded(const std::string& text);

}  // namespace meshwright

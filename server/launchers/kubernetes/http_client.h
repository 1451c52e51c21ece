#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "search_space/base/units.h"

namespace meshwright {

struct HttpOptions {
  std::string token_file = {};  // of a bearer token, read anew each time; empty: sends none
  std::string ca_file = {};     // whose certificates are trusted; empty: those of the system
  Seconds limit = Seconds(10);  // for all of a request, also for its connection
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

// Sends a request over a connection of its own and waits for the answer, whichever it is: also 404
// and 500 are answers. UNAVAILABLE when none came. Takes no proxy from the environment, and follows
// no redirection, since the token is meant for one server.
absl::StatusOr<HttpResponse> SendHttp(const HttpRequest& request, const HttpOptions& options);

// As a part of an URL.
std::string UrlEncoded(const std::string& text);

}  // namespace meshwright

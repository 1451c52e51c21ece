#include "server/http/beast_message.h"

#include <cstddef>
#include <string>

namespace meshwright {
namespace {

namespace beast = boost::beast;
namespace http = boost::beast::http;

std::string TextOf(beast::string_view text) { return {text.data(), text.size()}; }

}  // namespace

bool TakesBody(http::verb method) {
  return method == http::verb::post || method == http::verb::patch;
}

HttpRequest ToRequest(const http::request<http::string_body>& message) {
  HttpRequest request;
  request.method = TextOf(message.method_string());
  const std::string target = TextOf(message.target());
  const std::size_t mark = target.find('?');
  request.path = target.substr(0, mark);
  if (mark != std::string::npos) request.query = target.substr(mark + 1);
  request.host = TextOf(message[http::field::host]);
  request.forwarded_host = TextOf(message["X-Forwarded-Host"]);
  if (message.count(http::field::origin) > 0) request.origin = TextOf(message[http::field::origin]);
  request.if_none_match = TextOf(message[http::field::if_none_match]);
  request.last_event_id = TextOf(message["Last-Event-ID"]);
  request.content_type = TextOf(message[http::field::content_type]);
  request.if_match = TextOf(message[http::field::if_match]);
  request.authorization = TextOf(message[http::field::authorization]);
  request.body = message.body();
  request.accepts_gzip =
      TextOf(message[http::field::accept_encoding]).find("gzip") != std::string::npos;
  return request;
}

void FillFields(const HttpResponse& response, http::response_header<http::fields>& message) {
  message.result(static_cast<unsigned>(response.status));
  if (!response.content_type.empty()) {
    message.set(http::field::content_type, response.content_type);
  }
  for (const auto& [name, value] : response.fields) message.set(name, value);
}

}  // namespace meshwright

#pragma once

#include <boost/beast/http/fields.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/verb.hpp>

#include "server/http/http_message.h"

namespace meshwright {

// Returns true if a request may have a body.
bool TakesBody(boost::beast::http::verb method);

// Returns what the handlers of requests look at of one that Beast has read.
HttpRequest ToRequest(const boost::beast::http::request<boost::beast::http::string_body>& message);

// Sets the status and the header fields of a response that Beast writes.
void FillFields(const HttpResponse& response,
                boost::beast::http::response_header<boost::beast::http::fields>& message);

}  // namespace meshwright

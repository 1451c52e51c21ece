#pragma once

#include "absl/status/status.h"
#include "server/http/http_message.h"
#include "server/http/url.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Fills a message from the JSON in a request's body and from the fields of its address; a body that
// contradicts the address is a mistake. INVALID_ARGUMENT names every mistake. Its reason is
// UNSUPPORTED_MEDIA_TYPE for a body that is not marked as JSON, because a page of another site can
// make a browser send such a body without asking this server first.
absl::Status ReadJsonBody(const HttpRequest& request, const NamedValues& address_fields,
                          google::protobuf::Message& message);

}  // namespace meshwright

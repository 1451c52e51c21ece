#pragma once

#include <string_view>

#include "server/http/http_message.h"
#include "server/rpc/calls/call_end.h"

namespace google::protobuf {
class Message;
}

namespace meshwright {

// Returns the method of the API that a request belongs to: CreateStudy of CreateStudyRequest.
std::string_view MethodOf(const google::protobuf::Message& request);

// Returns the call that an HTTP request makes.
ArrivedCall Arrive(const Reception& reception, const HttpRequest& http,
                   const google::protobuf::Message& request,
                   const google::protobuf::Message* response);

}  // namespace meshwright

#include "server/http/http_call.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "server/http/request_checks.h"

namespace meshwright {

std::string_view MethodOf(const google::protobuf::Message& request) {
  constexpr std::string_view kEnd = "Request";
  const std::string_view name = request.GetDescriptor()->name();  // lives as long as the program
  return name.substr(0, name.size() - kEnd.size());
}

ArrivedCall Arrive(const Reception& reception, const HttpRequest& http,
                   const google::protobuf::Message& request,
                   const google::protobuf::Message* response) {
  return {.method = MethodOf(request),
          .protocol = "http",
          .request = request,
          .response = response,
          .caller = CallerOf(reception.callers, http)};
}

}  // namespace meshwright

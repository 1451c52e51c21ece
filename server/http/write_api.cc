#include "server/http/write_api.h"

#include <fmt/format.h>
#include <google/protobuf/message.h>

#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/auth/callers.h"
#include "server/http/addresses.h"
#include "server/http/http_call.h"
#include "server/http/http_status.h"
#include "server/http/json_body.h"
#include "server/http/query_fields.h"
#include "server/http/request_checks.h"
#include "server/http/url.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/calls/call_end.h"

namespace meshwright {
namespace {

constexpr int kPreconditionFailed = 412;
constexpr std::string_view kDelete = "DELETE";

using Change = absl::StatusOr<std::string> (*)(const ReadFace&, const HttpRequest&,
                                               const NamedValues&);

template <typename Request>
concept HasEtag = requires(Request request) {
  request.set_etag("");
};

// Takes the etag from If-Match, which is a text in quotes; * is any etag.
template <HasEtag Request>
absl::Status TakeIfMatch(const HttpRequest& http, Request& request) {
  std::string_view tag = http.if_match;
  if (tag.empty() || tag == "*") return absl::OkStatus();
  if (tag.size() >= 2 && tag.starts_with('"') && tag.ends_with('"')) {
    tag = tag.substr(1, tag.size() - 2);
  }
  if (request.has_etag() && request.etag() != tag) {
    return InvalidFields(
        {{.field = "etag",
          .description =
              fmt::format("'{}'; must be '{}' as in If-Match, or absent", request.etag(), tag)}});
  }
  request.set_etag(std::string(tag));
  return absl::OkStatus();
}

// The other requests have no etag.
template <typename Request>
absl::Status TakeIfMatch(const HttpRequest& /*http*/, Request& /*request*/) {
  return absl::OkStatus();
}

// Reads a request from its body. One to delete has none: its fields stand in the query.
absl::Status ReadRequest(const HttpRequest& http, NamedValues fields,
                         google::protobuf::Message& request) {
  if (http.method != kDelete) return ReadJsonBody(http, fields, request);
  const auto query = DecodeQuery(http.query);
  if (!query.has_value()) return BadEncoding();
  fields.insert(fields.end(), query->begin(), query->end());
  const std::vector<FieldViolation> violations = FillFromQuery(fields, request);
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

// Calls a function of the face, with the name of the caller if the function asks for it.
template <auto change, typename Request>
auto Invoke(const WriteFace& writes, const Request& request,
            const std::optional<KnownCaller>& caller) {
  if constexpr (std::is_invocable_v<decltype(writes.*change), const Request&, std::string_view>) {
    return (writes.*change)(request, caller.has_value() ? caller->name : std::string());
  } else {
    return (writes.*change)(request);
  }
}

template <typename Request, auto change>
absl::StatusOr<std::string> Call(const ReadFace& face, const HttpRequest& http,
                                 const NamedValues& fields) {
  Request request;
  RETURN_IF_ERROR(ReadRequest(http, fields, request));
  RETURN_IF_ERROR(TakeIfMatch(http, request));
  typename decltype(Invoke<change>(*face.writes, request, {}))::value_type response;
  const ArrivedCall arrived = Arrive(face.reception, http, request, &response);
  const absl::Status admitted = AdmitChange(face.reception.callers, http, arrived.method, request);
  if (!admitted.ok()) {
    EndCall(face.reception, arrived, admitted);
    return admitted;
  }
  RETURN_IF_ERROR(RunCall(face.reception, arrived, [&]() -> absl::Status {
    ASSIGN_OR_RETURN(response, Invoke<change>(*face.writes, request, arrived.caller));
    return absl::OkStatus();
  }));
  return PrintJson(response, {}) + "\n";
}

struct WriteRoute {
  std::string_view method;
  std::string_view address;
  Change change;
};

constexpr WriteRoute kWriteRoutes[] = {
    {"POST", "/v1/studies", Call<v1::CreateStudyRequest, &WriteFace::create_study>},
    {"PATCH", "/v1/studies/{study_id}", Call<v1::UpdateStudyRequest, &WriteFace::update_study>},
    {"POST", "/v1/studies/{study_id}:cancel",
     Call<v1::CancelStudyRequest, &WriteFace::cancel_study>},
    {"POST", "/v1/studies/{study_id}:pause", Call<v1::PauseStudyRequest, &WriteFace::pause_study>},
    {"POST", "/v1/studies/{study_id}:resume",
     Call<v1::ResumeStudyRequest, &WriteFace::resume_study>},
    {"DELETE", "/v1/studies/{study_id}", Call<v1::DeleteStudyRequest, &WriteFace::delete_study>},
    {"POST", "/v1/studies/{study_id}:retryTrials",
     Call<v1::RetryTrialsRequest, &WriteFace::retry_trials>},
};

HttpResponse WriteResponse(const absl::StatusOr<std::string>& body, const HttpRequest& request) {
  if (body.ok()) return {.content_type = "application/json", .body = *body};
  HttpResponse response = ErrorResponse(body.status());
  if (absl::IsAborted(body.status()) && !request.if_match.empty()) {
    response.status = kPreconditionFailed;
  }
  return response;
}

}  // namespace

std::optional<HttpResponse> AnswerWrite(const ReadFace& face, const HttpRequest& request) {
  const auto path = DecodePath(request.path);
  if (!path.has_value()) return std::nullopt;
  for (const WriteRoute& route : kWriteRoutes) {
    if (route.method != request.method) continue;
    const auto fields = MatchAddress(route.address, *path);
    if (!fields.has_value()) continue;
    if (!face.writes.has_value()) return ErrorResponse(ReadOnly(request));
    return WriteResponse(route.change(face, request, *fields), request);
  }
  return std::nullopt;
}

std::vector<std::string> WriteAddresses() {
  std::vector<std::string> addresses;
  for (const WriteRoute& route : kWriteRoutes) {
    addresses.push_back(fmt::format("{} {}", route.method, route.address));
  }
  return addresses;
}

}  // namespace meshwright

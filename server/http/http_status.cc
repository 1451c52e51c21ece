#include "server/http/http_status.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <string_view>

#include "meshwright/v1/estimate.pb.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/convert/status_wire.h"

namespace meshwright {
namespace {

constexpr int kUnauthorized = 401;
constexpr int kMethodNotAllowed = 405;

// The reasons that HTTP has a status of its own for.
struct ReasonStatus {
  std::string_view reason;
  int status;
};
constexpr ReasonStatus kReasonStatuses[] = {{"READ_ONLY", kMethodNotAllowed},
                                            {"UNSUPPORTED_MEDIA_TYPE", 415}};

}  // namespace

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kFailedPrecondition:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kDataLoss:
    case absl::StatusCode::kDoNotUseReservedForFutureExpansionUseDefaultInSwitchInstead_:
      return 500;
  }
  std::abort();
}

HttpResponse ErrorResponse(const absl::Status& status) {
  v1::FailedCase failed;
  *failed.mutable_error() = ToCaseError(status);
  HttpResponse response = {.status = HttpStatusOf(status.code()),
                           .content_type = "application/json",
                           .body = PrintJson(failed, {})};
  for (const ReasonStatus& row : kReasonStatuses) {
    if (row.reason == Reason(status)) response.status = row.status;
  }
  if (response.status == kMethodNotAllowed) response.fields.emplace_back("Allow", "GET, HEAD");
  if (response.status == kUnauthorized) {
    // Browsers then ask their user for a name, which may be any, and a password: the token.
    response.fields.emplace_back("WWW-Authenticate",
                                 "Basic realm=\"meshwright\", charset=\"UTF-8\"");
  }
  if (const auto retry = RetryAfterOf(status)) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(*retry);
    response.fields.emplace_back("Retry-After", fmt::format("{}", seconds.count()));
  }
  if (const auto infeasible = InfeasibleOf(status)) {
    response.body.pop_back();
    response.body += fmt::format(R"(, "infeasible": {}}})", PrintJson(*infeasible, {}));
  }
  response.body += "\n";
  return response;
}

}  // namespace meshwright

#include "server/http/http_status.h"

#include <cstdlib>

#include "meshwright/v1/estimate.pb.h"
#include "proto/json/json.h"
#include "server/convert/convert.h"

namespace meshwright {

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
  return {.status = HttpStatusOf(status.code()),
          .content_type = "application/json",
          .body = PrintJson(failed, {}) + "\n"};
}

}  // namespace meshwright

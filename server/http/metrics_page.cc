#include "server/http/metrics_page.h"

#include <utility>

#include "search_space/base/status.h"
#include "server/http/addresses.h"
#include "server/http/http_status.h"
#include "server/http/request_checks.h"

namespace meshwright {
namespace {

absl::Status Check(const HttpRequest& request, const KnownCallers* callers) {
  RETURN_IF_ERROR(CheckOrigin(request));
  RETURN_IF_ERROR(AdmitReader(callers, request));
  if (request.method != "GET" && request.method != "HEAD") return ReadOnly(request);
  if (request.path != kMetricsAddress) return UnknownAddress(request.path);
  return absl::OkStatus();
}

}  // namespace

HttpResponse MetricsResponse(std::string text) {
  return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(text)};
}

HttpHandler MetricsHandler(std::function<std::string()> metrics, const KnownCallers* callers) {
  return [metrics = std::move(metrics), callers](const HttpRequest& request) -> HttpAnswer {
    const absl::Status checked = Check(request, callers);
    if (!checked.ok()) return {.response = ErrorResponse(checked)};
    return {.response = MetricsResponse(metrics())};
  };
}

}  // namespace meshwright

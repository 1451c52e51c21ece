#include "server/http/dashboard.h"

#include <string_view>
#include <utility>

#include "search_space/base/status.h"
#include "server/http/http_status.h"
#include "server/http/pages.h"
#include "server/http/read_api.h"
#include "server/http/request_checks.h"

namespace meshwright {
namespace {

// The pages load nothing that is not theirs, run no code that is not a file of theirs, and cannot
// be shown inside another page. ECharts draws on a canvas and saves through blobs.
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

HttpAnswer Answer(const ReadFace& face, const HttpRequest& request) {
  if (const absl::Status origin = CheckOrigin(request); !origin.ok()) {
    return {.response = ErrorResponse(origin)};
  }
  if (const absl::Status method = CheckMethod(request); !method.ok()) {
    HttpResponse refusal = ErrorResponse(method);
    refusal.status = 405;
    refusal.fields.emplace_back("Allow", "GET, HEAD");
    return {.response = std::move(refusal)};
  }
  if (request.path.starts_with("/v1/")) return AnswerRead(face, request);
  return {.response = AnswerPage(request)};
}

}  // namespace

HttpHandler DashboardHandler(const ReadFace& face) {
  return [&face](const HttpRequest& request) {
    HttpAnswer answer = Answer(face, request);
    auto& fields = answer.response.fields;
    fields.emplace_back("Content-Security-Policy", kContentPolicy);
    fields.emplace_back("X-Content-Type-Options", "nosniff");
    fields.emplace_back("Referrer-Policy", "no-referrer");
    fields.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
    fields.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
    // A tag tells whether a copy is still good; without one, nothing is kept.
    fields.emplace_back("Cache-Control", "no-cache");
    return answer;
  };
}

}  // namespace meshwright

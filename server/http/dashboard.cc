#include "server/http/dashboard.h"

#include <memory>
#include <utility>

#include "search_space/base/status.h"
#include "server/http/ask_api.h"
#include "server/http/http_status.h"
#include "server/http/metrics_page.h"
#include "server/http/pages.h"
#include "server/http/read_api.h"
#include "server/http/request_checks.h"
#include "server/http/write_api.h"

namespace meshwright {
namespace {

// The pages load nothing that is not theirs, run no code that is not a file of theirs, and cannot
// be shown inside another page. ECharts draws on a canvas and saves through blobs.
constexpr char kContentPolicy[] =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

HttpAnswer Answer(const ReadFace& face, AskApi& asks, const HttpRequest& request) {
  if (const absl::Status origin = CheckOrigin(request); !origin.ok()) {
    return {.response = ErrorResponse(origin)};
  }
  if (const absl::Status admitted = AdmitReader(face.reception.callers, request); !admitted.ok()) {
    // Nobody has looked for its address, so it is a call of no method.
    if (face.reception.on_end) {
      face.reception.on_end({.method = "unknown", .protocol = "http", .code = admitted.code()});
    }
    return {.response = ErrorResponse(admitted)};
  }
  const bool is_api = request.path.starts_with("/v1/");
  if (is_api) {
    if (auto asked = asks.Answer(request)) return *std::move(asked);
    if (auto written = AnswerWrite(face, request)) return {.response = *std::move(written)};
  }
  if (request.method != "GET" && request.method != "HEAD") {
    return {.response = ErrorResponse(ReadOnly(request))};
  }
  if (is_api) return AnswerRead(face, request);
  if (face.metrics && request.path == kMetricsAddress) {
    return {.response = MetricsResponse(face.metrics())};
  }
  return {.response = AnswerPage(request)};
}

void AddFields(HttpResponse& response) {
  auto& fields = response.fields;
  fields.emplace_back("Content-Security-Policy", kContentPolicy);
  fields.emplace_back("X-Content-Type-Options", "nosniff");
  fields.emplace_back("Referrer-Policy", "no-referrer");
  fields.emplace_back("Cross-Origin-Opener-Policy", "same-origin");
  fields.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  // A tag tells whether a copy is still good; without one, nothing is kept.
  fields.emplace_back("Cache-Control", "no-cache");
}

// Adds the fields to the response that comes later.
OpenReply WithFields(OpenReply open) {
  return [open = std::move(open)](Reply reply) {
    return open([reply = std::move(reply)](HttpResponse response) {
      AddFields(response);
      reply(std::move(response));
    });
  };
}

}  // namespace

HttpHandler DashboardHandler(const ReadFace& face) {
  return [&face, asks = std::make_shared<AskApi>(face)](const HttpRequest& request) {
    HttpAnswer answer = Answer(face, *asks, request);
    if (answer.open_reply) {
      answer.open_reply = WithFields(std::move(answer.open_reply));
    } else {
      AddFields(answer.response);
    }
    return answer;
  };
}

}  // namespace meshwright

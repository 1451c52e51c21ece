#include "server/http/ask_api.h"

#include <fmt/format.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string_view>
#include <utility>

#include "meshwright/v1/placement.pb.h"
#include "meshwright/v1/service.pb.h"
#include "proto/json/json.h"
#include "search_space/base/status.h"
#include "server/convert/convert.h"
#include "server/convert/question_answers.h"
#include "server/http/addresses.h"
#include "server/http/http_call.h"
#include "server/http/http_status.h"
#include "server/http/json_body.h"
#include "server/http/query_fields.h"
#include "server/http/url.h"
#include "server/placement/place_jobs.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/calls/call_end.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

constexpr int kThreads = 1;
constexpr std::size_t kMaxWaiting = 8;

// Works on a question that has been read, and returns the JSON of its answer.
using Work = std::function<absl::StatusOr<std::string>(std::stop_token)>;
// Reads a question from a request and the fields that its address and its query state.
using ReadQuestion = absl::StatusOr<Work> (*)(const ReadFace&, const HttpRequest&,
                                              const NamedValues&);

template <typename Request, auto answer>
Work WorkOn(const ReadFace& face, const HttpRequest& http, Request stated) {
  using Response = typename decltype(answer(face, stated, std::stop_token()))::value_type;
  auto request = std::make_shared<const Request>(std::move(stated));
  auto response = std::make_shared<Response>();
  // The call begins now, and waits for its turn.
  const ArrivedCall arrived = Arrive(face.reception, http, *request, response.get());
  return
      [&face, arrived, request, response](std::stop_token cancel) -> absl::StatusOr<std::string> {
        RETURN_IF_ERROR(RunCall(face.reception, arrived, [&]() -> absl::Status {
          ASSIGN_OR_RETURN(*response, answer(face, *request, std::move(cancel)));
          return absl::OkStatus();
        }));
        return PrintJson(*response, {}) + "\n";
      };
}

template <typename Request, auto answer>
absl::StatusOr<Work> Post(const ReadFace& face, const HttpRequest& http,
                          const NamedValues& fields) {
  Request request;
  RETURN_IF_ERROR(ReadJsonBody(http, fields, request));
  return WorkOn<Request, answer>(face, http, std::move(request));
}

template <typename Request, auto answer>
absl::StatusOr<Work> Get(const ReadFace& face, const HttpRequest& http, const NamedValues& fields) {
  Request request;
  const std::vector<FieldViolation> violations = FillFromQuery(fields, request);
  if (!violations.empty()) return InvalidFields(violations);
  return WorkOn<Request, answer>(face, http, std::move(request));
}

absl::StatusOr<v1::RecommendResponse> Recommend(const ReadFace& face,
                                                const v1::RecommendRequest& request,
                                                std::stop_token cancel) {
  return AnswerRecommend(request, ContextOf(face, std::move(cancel)),
                         std::chrono::system_clock::now() + face.ask_limit);
}

absl::StatusOr<v1::SweepResponse> Sweep(const ReadFace& face, const v1::SweepRequest& request,
                                        std::stop_token cancel) {
  return AnswerSweep(request, ContextOf(face, std::move(cancel)),
                     std::chrono::system_clock::now() + face.ask_limit);
}

absl::StatusOr<v1::PlaceJobsResponse> Place(const ReadFace& face,
                                            const v1::PlaceJobsRequest& request,
                                            std::stop_token cancel) {
  return AnswerPlaceJobs(request, ContextOf(face, std::move(cancel)),
                         std::chrono::system_clock::now() + face.ask_limit);
}

absl::StatusOr<v1::EvaluatePlansResponse> Evaluate(const ReadFace& face,
                                                   const v1::EvaluatePlansRequest& request,
                                                   const std::stop_token& cancel) {
  ASSIGN_OR_RETURN(const HistorySource history, face.learnt(std::nullopt));
  return AnswerCases(request, face.knowledge, history, cancel, face.open_model);
}

absl::StatusOr<v1::ComparePlansResponse> Compare(const ReadFace& face,
                                                 const v1::ComparePlansRequest& request,
                                                 std::stop_token cancel) {
  return ComparePlans(request, ContextOf(face, std::move(cancel)));
}

absl::StatusOr<v1::ComparePlansResponse> CompareStored(const ReadFace& face,
                                                       const v1::CompareStudyPlansRequest& request,
                                                       std::stop_token cancel) {
  return CompareStudyPlans(face.history, request, ContextOf(face, std::move(cancel)));
}

// The trace is in a format of its own, so that Perfetto opens it.
absl::StatusOr<Work> ReadTrace(const ReadFace& face, const HttpRequest& http,
                               const NamedValues& fields) {
  auto request = std::make_shared<v1::GetPlanRequest>();
  const std::vector<FieldViolation> violations = FillFromQuery(fields, *request);
  if (!violations.empty()) return InvalidFields(violations);
  ArrivedCall arrived = Arrive(face.reception, http, *request, nullptr);
  arrived.method = "TraceStudyPlan";
  return [&face, arrived, request](std::stop_token cancel) -> absl::StatusOr<std::string> {
    std::string body;
    RETURN_IF_ERROR(RunCall(face.reception, arrived, [&]() -> absl::Status {
      ASSIGN_OR_RETURN(body,
                       TraceStudyPlan(face.history, *request, ContextOf(face, std::move(cancel))));
      return absl::OkStatus();
    }));
    return body;
  };
}

constexpr std::string_view kTraceAddress = "/v1/studies/{study_id}/plans/{rank}:trace";

struct AskRoute {
  std::string_view method;
  std::string_view address;
  ReadQuestion read;
};

constexpr AskRoute kAskRoutes[] = {
    {"GET", "/v1/studies/{study_id}/plans:compare",
     Get<v1::CompareStudyPlansRequest, CompareStored>},
    {"GET", kTraceAddress, ReadTrace},
    {"POST", "/v1/plans:recommend", Post<v1::RecommendRequest, Recommend>},
    {"POST", "/v1/plans:evaluate", Post<v1::EvaluatePlansRequest, Evaluate>},
    {"POST", "/v1/jobs:place", Post<v1::PlaceJobsRequest, Place>},
    {"POST", "/v1/plans:sweep", Post<v1::SweepRequest, Sweep>},
    {"POST", "/v1/plans:compare", Post<v1::ComparePlansRequest, Compare>},
};

HttpResponse AskResponse(const absl::StatusOr<std::string>& body) {
  if (!body.ok()) return ErrorResponse(body.status());
  return {.content_type = "application/json", .body = *body};
}

// Hands the work to the pool; the work's reader may go away meanwhile.
OpenReply InPool(WorkPool& pool, Work work) {
  return [&pool, work = std::move(work)](const Reply& reply) -> std::function<void()> {
    auto gone = std::make_shared<std::stop_source>();
    const auto run = [work, reply, gone] {
      if (!gone->stop_requested()) reply(AskResponse(work(gone->get_token())));
    };
    const absl::Status submitted = pool.Submit({.run = run});
    if (!submitted.ok()) {
      reply(ErrorResponse(submitted));
      return {};
    }
    return [gone] { gone->request_stop(); };
  };
}

}  // namespace

AskApi::AskApi(const ReadFace& face)
    : face_(face), pool_({.threads = kThreads, .waiting = kMaxWaiting}) {}

std::optional<HttpAnswer> AskApi::Answer(const HttpRequest& request) {
  const auto path = DecodePath(request.path);
  const auto query = DecodeQuery(request.query);
  if (!path.has_value() || !query.has_value()) return std::nullopt;
  for (const AskRoute& route : kAskRoutes) {
    if (route.method != request.method) continue;
    auto fields = MatchAddress(route.address, *path);
    if (!fields.has_value()) continue;
    if (route.method == "GET") fields->insert(fields->end(), query->begin(), query->end());
    auto work = route.read(face_, request, *fields);
    if (!work.ok()) return HttpAnswer{.response = ErrorResponse(work.status())};
    return HttpAnswer{.open_reply = InPool(pool_, *std::move(work))};
  }
  return std::nullopt;
}

std::vector<std::string> AskAddresses() {
  std::vector<std::string> addresses;
  for (const AskRoute& route : kAskRoutes) {
    addresses.push_back(fmt::format("{} {}", route.method, route.address));
  }
  return addresses;
}

}  // namespace meshwright

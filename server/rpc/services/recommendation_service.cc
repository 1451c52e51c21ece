#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>

#include "meshwright/v1/service.grpc.pb.h"
#include "search_space/base/status.h"
#include "search_space/base/units.h"
#include "server/convert/convert.h"
#include "server/convert/question_answers.h"
#include "server/convert/status_wire.h"
#include "server/engine/engine.h"
#include "server/rpc/calls/answer.h"
#include "server/rpc/calls/pooled_reactor.h"
#include "server/rpc/services/answer_margin.h"
#include "server/rpc/services/search_time.h"
#include "server/rpc/services/services.h"
#include "server/tuner/answers/explain.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"
#include "server/tuner/question/study_control.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {
namespace {

using SystemClock = std::chrono::system_clock;

std::int64_t Milliseconds(SystemClock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

class RecommendationService final : public v1::RecommendationService::CallbackService {
 public:
  explicit RecommendationService(const ServiceContext& context) : context_(context) {}

  grpc::ServerUnaryReactor* Recommend(grpc::CallbackServerContext* context,
                                      const v1::RecommendRequest* request,
                                      v1::RecommendResponse* response) override {
    return PooledReactor::Start(
        context_.pool, {context_.reception, *context, "Recommend", *request, response},
        [this, request, response, time = SearchTimeOf(*context, margin_, Longest::kLimited)](
            std::stop_token cancel) -> absl::Status {
          ASSIGN_OR_RETURN(*response, Answer(*request, time, std::move(cancel)));
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* EvaluatePlans(grpc::CallbackServerContext* context,
                                          const v1::EvaluatePlansRequest* request,
                                          v1::EvaluatePlansResponse* response) override {
    return PooledReactor::Start(
        context_.heavy_pool, {context_.reception, *context, "EvaluatePlans", *request, response},
        [this, request, response](const std::stop_token& cancel) -> absl::Status {
          ASSIGN_OR_RETURN(const HistorySource history, context_.engine.History(std::nullopt));
          ASSIGN_OR_RETURN(*response, AnswerCases(*request, context_.knowledge, history, cancel,
                                                  context_.open_model));
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* ExplainPlan(grpc::CallbackServerContext* context,
                                        const v1::ExplainPlanRequest* request,
                                        v1::ExplainPlanResponse* response) override {
    const auto search_end = SearchTimeOf(*context, margin_, Longest::kLimited).end;
    return PooledReactor::Start(
        context_.pool, {context_.reception, *context, "ExplainPlan", *request, response},
        [this, request, response, search_end](const std::stop_token& cancel) -> absl::Status {
          ASSIGN_OR_RETURN(const Bounded asked, Ask(request->question(), {search_end, cancel}));
          ASSIGN_OR_RETURN(const Explanation explanation,
                           meshwright::Explain(asked.limited, context_.knowledge, asked.control));
          *response = ToWire(explanation);
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* Sweep(grpc::CallbackServerContext* context,
                                  const v1::SweepRequest* request,
                                  v1::SweepResponse* response) override {
    const auto search_end = SearchTimeOf(*context, margin_, Longest::kAsAsked).end;
    return PooledReactor::Start(
        context_.heavy_pool, {context_.reception, *context, "Sweep", *request, response},
        [this, request, response, search_end](const std::stop_token& cancel) -> absl::Status {
          ASSIGN_OR_RETURN(*response,
                           AnswerSweep(*request, QuestionContextOf(context_, cancel), search_end));
          return absl::OkStatus();
        });
  }

  grpc::ServerUnaryReactor* ComparePlans(grpc::CallbackServerContext* context,
                                         const v1::ComparePlansRequest* request,
                                         v1::ComparePlansResponse* response) override {
    return PooledReactor::Start(
        context_.pool, {context_.reception, *context, "ComparePlans", *request, response},
        [this, request, response](const std::stop_token& cancel) -> absl::Status {
          ASSIGN_OR_RETURN(*response,
                           meshwright::ComparePlans(*request, QuestionContextOf(context_, cancel)));
          return absl::OkStatus();
        });
  }

 private:
  struct Limits {
    SystemClock::time_point search_end = {};
    std::stop_token cancel = {};
  };

  // A question as it was asked, and as it is limited by the rest of the call's time and extended by
  // the store's history.
  struct Bounded {
    ResolvedStudy asked = {};
    ResolvedStudy limited = {};
    StudyControl control = {};
  };

  absl::StatusOr<Bounded> Ask(const v1::TuneRequest& question, const Limits& limits) const {
    Bounded bounded;
    ASSIGN_OR_RETURN(bounded.asked, FromWire(question, context_.knowledge));
    bounded.limited = bounded.asked;
    bounded.control.cancel = limits.cancel;
    bounded.control.open_model = context_.open_model;
    ASSIGN_OR_RETURN(bounded.control.history,
                     context_.engine.History(bounded.asked.request.history_sequence));
    const Seconds left = limits.search_end - SystemClock::now();
    if (left <= Seconds(0)) {
      return absl::DeadlineExceededError("the deadline is too short for a search");
    }
    bounded.limited.request.deadline =
        std::min(left, bounded.asked.request.deadline.value_or(left));
    return bounded;
  }

  absl::StatusOr<v1::RecommendResponse> Answer(const v1::RecommendRequest& request,
                                               const SearchTime& time, std::stop_token cancel) {
    const std::int64_t start_ms = Milliseconds(SystemClock::now());
    auto response = AnswerRecommend(
        request, QuestionContextOf(context_, std::move(cancel)), time.end,
        [this, start_ms](const AnsweredQuestion& answered) { return Record(answered, start_ms); });
    const auto now = SystemClock::now();
    if (!response.ok() || response->result().search().complete() || now < time.end) return response;
    margin_.Note(now - time.end);
    if (!time.note.empty()) response->mutable_result()->add_warnings(time.note);
    return response;
  }

  // Records an answer and returns the study's id. If the store fails, the answer is still sent, but
  // without a study, because the answer is worth more than its record.
  std::string Record(const AnsweredQuestion& answered, std::int64_t start_ms) {
    const auto study = context_.engine.RecordStudy(
        answered.asked, answered.answer,
        {.start_time_ms = start_ms, .history_sequence = answered.history_sequence});
    if (study.ok()) return study->id;
    spdlog::warn("event=not_recorded method=Recommend reason={} what=\"{}\"",
                 Reason(study.status()), std::string(study.status().message()));
    return "";
  }

  const ServiceContext context_;
  AnswerMargin margin_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeRecommendationService(const ServiceContext& context) {
  return std::make_unique<RecommendationService>(context);
}

}  // namespace meshwright

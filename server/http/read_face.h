#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"
#include "meshwright/v1/catalog.pb.h"
#include "meshwright/v1/service.pb.h"
#include "server/convert/question_answers.h"
#include "server/convert/study_wire.h"
#include "server/engine/answer_memory.h"
#include "server/engine/history_queries.h"
#include "server/engine/journal_events.h"
#include "server/rpc/calls/call_end.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/plan_model.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The journals of studies, as Engine and Followers offer them.
struct EventFeed {
  // Calls the sink with all events after a revision, then with each new one, and once with nullopt.
  std::function<absl::StatusOr<std::int64_t>(std::string_view study_id, std::int64_t after_revision,
                                             EventSink sink)>
      subscribe = {};
  std::function<void(std::int64_t subscription)> unsubscribe = {};
};

// The calls that change studies over HTTP, as the gRPC calls of the same names.
struct WriteFace {
  // `creator` is the name of the caller; empty: nobody known.
  std::function<absl::StatusOr<v1::CreateStudyResponse>(const v1::CreateStudyRequest&,
                                                        std::string_view creator)>
      create_study = {};
  std::function<absl::StatusOr<v1::CancelStudyResponse>(const v1::CancelStudyRequest&)>
      cancel_study = {};
  std::function<absl::StatusOr<v1::PauseStudyResponse>(const v1::PauseStudyRequest&)> pause_study =
      {};
  std::function<absl::StatusOr<v1::ResumeStudyResponse>(const v1::ResumeStudyRequest&)>
      resume_study = {};
  std::function<absl::StatusOr<v1::DeleteStudyResponse>(const v1::DeleteStudyRequest&)>
      delete_study = {};
  std::function<absl::StatusOr<v1::RetryTrialsResponse>(const v1::RetryTrialsRequest&)>
      retry_trials = {};
  std::function<absl::StatusOr<v1::UpdateStudyResponse>(const v1::UpdateStudyRequest&)>
      update_study = {};
};

// The part of the server that the pages and their API read. It outlives the server; all of it may
// be used from any thread.
struct ReadFace {
  const Knowledge& knowledge;
  const HistoryQueries history;
  const EventFeed feed;
  const std::function<v1::GetServerInfoResponse()> server_info;
  const std::function<v1::ListCostModelsResponse()> list_cost_models = {};  // null: there are none
  const std::function<v1::ListCallersResponse()> list_callers = {};  // null: everybody may call
  const ShowStudy show = AsStored;
  // The measurements that questions learn from.
  const OpenHistory learnt = [](std::optional<std::int64_t>) { return HistorySource(); };
  const OpenPlanModel open_model = {};         // null: there are no vendors' models
  AnswerMemory* const answers = nullptr;       // null: equal questions are searched again
  const std::optional<WriteFace> writes = {};  // absent: studies cannot be changed over HTTP
  const std::chrono::milliseconds ask_limit = std::chrono::seconds(30);  // for one question
  const Reception reception = {};
  const std::function<std::string()> metrics = {};  // text for Prometheus; null: there is none
};

// Returns what a question of the face is answered from.
inline QuestionContext ContextOf(const ReadFace& face, std::stop_token cancel = {}) {
  return {.knowledge = face.knowledge,
          .history = face.learnt,
          .open_model = face.open_model,
          .cancel = std::move(cancel),
          .answers = face.answers};
}

}  // namespace meshwright

#include "server/changes/study_changes.h"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recorder/call_records.h"
#include "recorder/recorder.h"
#include "recorder/records.h"
#include "search_space/base/status.h"
#include "server/changes/answer_once.h"
#include "server/convert/convert.h"
#include "server/convert/study_wire.h"
#include "server/engine/engine_options.h"
#include "server/engine/study_id.h"
#include "server/tuner/question/resolved_study.h"

namespace meshwright {
namespace {

// Answers a call that may be repeated as often as one likes with a study as it is after `change`.
template <typename Response, typename Request, typename Change>
absl::StatusOr<Response> ChangeOnce(const Request& request, std::string_view method,
                                    const StoreAccess& store, const Change& change) {
  ASSIGN_OR_RETURN(const CallKey key, CallKeyOf(method, request));
  return AnswerOnce<Response>(store, key, [&]() -> absl::StatusOr<Response> {
    const absl::StatusOr<StudyRecord> study = change();
    if (!study.ok()) return NameStudy(study.status(), request.study_id());
    Response response;
    *response.mutable_study() = ToWire(*study);
    return response;
  });
}

// Reads the answer to a call that was kept with its changes; an error names the study.
template <typename Response, typename Request>
absl::StatusOr<Response> Named(const absl::StatusOr<std::string>& answer, const Request& request) {
  if (!answer.ok()) return NameStudy(answer.status(), request.study_id());
  return ParseAnswer<Response>(answer);
}

}  // namespace

absl::StatusOr<v1::CreateStudyResponse> CreateStudy(const v1::CreateStudyRequest& request,
                                                    std::string_view creator,
                                                    const Knowledge& knowledge, Engine& engine) {
  CreateStudyOptions options = {.creator = std::string(creator)};
  std::vector<FieldViolation> violations;
  if (request.has_study_id()) {
    options.study_id = request.study_id();
    const std::string& launcher = request.question().trials().launcher();
    if (auto violation = CheckStudyId(request.study_id(), launcher)) {
      violations.push_back(*std::move(violation));
    }
  }
  if (request.has_request_id()) options.request_id = request.request_id();
  ASSIGN_OR_RETURN(const ResolvedStudy asked,
                   FromWire(request.question(), knowledge, std::move(violations)));
  ASSIGN_OR_RETURN(const StudyRecord study, engine.CreateStudy(asked, options));
  v1::CreateStudyResponse response;
  *response.mutable_study() = ToWire(study);
  return response;
}

absl::StatusOr<v1::CancelStudyResponse> CancelStudy(const v1::CancelStudyRequest& request,
                                                    Engine& engine) {
  return ChangeOnce<v1::CancelStudyResponse>(request, "CancelStudy", engine.store(), [&] {
    return engine.CancelStudy(request.study_id());
  });
}

absl::StatusOr<v1::PauseStudyResponse> PauseStudy(const v1::PauseStudyRequest& request,
                                                  Engine& engine) {
  return ChangeOnce<v1::PauseStudyResponse>(request, "PauseStudy", engine.store(),
                                            [&] { return engine.PauseStudy(request.study_id()); });
}

absl::StatusOr<v1::ResumeStudyResponse> ResumeStudy(const v1::ResumeStudyRequest& request,
                                                    Engine& engine) {
  return ChangeOnce<v1::ResumeStudyResponse>(request, "ResumeStudy", engine.store(), [&] {
    return engine.ResumeStudy(request.study_id());
  });
}

absl::StatusOr<v1::DeleteStudyResponse> DeleteStudy(const v1::DeleteStudyRequest& request,
                                                    Engine& engine) {
  ASSIGN_OR_RETURN(const StudyDeletion deletion, FromWire(request));
  ASSIGN_OR_RETURN(const CallKey key, CallKeyOf("DeleteStudy", request));
  const auto encode = [&request](const DeletedStudy& deleted) {
    return StableBytes(ToWire(deleted, request.study_id()));
  };
  return Named<v1::DeleteStudyResponse>(engine.DeleteStudy(deletion, key, encode), request);
}

absl::StatusOr<v1::RetryTrialsResponse> RetryTrials(const v1::RetryTrialsRequest& request,
                                                    Engine& engine) {
  ASSIGN_OR_RETURN(const StudyReopening reopening, FromWire(request));
  ASSIGN_OR_RETURN(const CallKey key, CallKeyOf("RetryTrials", request));
  const auto encode = [](const ReopenedStudy& reopened) { return StableBytes(ToWire(reopened)); };
  return Named<v1::RetryTrialsResponse>(engine.RetryTrials(reopening, key, encode), request);
}

absl::StatusOr<v1::UpdateStudyResponse> UpdateStudy(const v1::UpdateStudyRequest& request,
                                                    const StoreAccess& store) {
  ASSIGN_OR_RETURN(const StudyEdit edit, FromWire(request));
  ASSIGN_OR_RETURN(const CallKey key, CallKeyOf("UpdateStudy", request));
  const auto answer = WriteTo(store, [&](Recorder& recorder) {
    return recorder.AnswerOnce(key, [&]() -> absl::StatusOr<std::string> {
      ASSIGN_OR_RETURN(const StudyRecord study, recorder.EditStudy(edit));
      v1::UpdateStudyResponse response;
      *response.mutable_study() = ToWire(study);
      return StableBytes(response);
    });
  });
  return Named<v1::UpdateStudyResponse>(answer, request);
}

}  // namespace meshwright

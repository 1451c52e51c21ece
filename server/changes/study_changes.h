#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "recorder/store_access.h"
#include "server/engine/engine.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {

// These change studies, as Engine's calls of the same names, and UpdateStudy as
// Recorder::EditStudy, so that gRPC and HTTP do the same. A repeated request_id gets the first
// answer; INVALID_ARGUMENT with reason REQUEST_ID_REUSED if it belongs to another request.
// NOT_FOUND names the study as a resource.
// `creator` is the name of the caller; empty: nobody known.
absl::StatusOr<v1::CreateStudyResponse> CreateStudy(const v1::CreateStudyRequest& request,
                                                    std::string_view creator,
                                                    const Knowledge& knowledge, Engine& engine);
absl::StatusOr<v1::CancelStudyResponse> CancelStudy(const v1::CancelStudyRequest& request,
                                                    Engine& engine);
absl::StatusOr<v1::PauseStudyResponse> PauseStudy(const v1::PauseStudyRequest& request,
                                                  Engine& engine);
absl::StatusOr<v1::ResumeStudyResponse> ResumeStudy(const v1::ResumeStudyRequest& request,
                                                    Engine& engine);
absl::StatusOr<v1::DeleteStudyResponse> DeleteStudy(const v1::DeleteStudyRequest& request,
                                                    Engine& engine);
absl::StatusOr<v1::RetryTrialsResponse> RetryTrials(const v1::RetryTrialsRequest& request,
                                                    Engine& engine);
absl::StatusOr<v1::UpdateStudyResponse> UpdateStudy(const v1::UpdateStudyRequest& request,
                                                    const StoreAccess& store);

}  // namespace meshwright

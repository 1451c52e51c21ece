#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "recorder/records.h"
#include "server/engine/history_queries.h"

namespace meshwright {

// These functions answer requests about studies from a store, so that gRPC, HTTP and a command that
// has the store open itself give the same answers.

// Converts a study of a store. A program that only reads the store of others shows a study whose
// process is gone as interrupted.
using ShowStudy = std::function<v1::Study(const StudyRecord&)>;
v1::Study AsStored(const StudyRecord& study);

// Adds the study as a resource to an error that says that it is unknown.
absl::Status NameStudy(const absl::Status& status, const std::string& id);

// Returns INVALID_ARGUMENT for an unknown state.
absl::StatusOr<v1::ListStudiesResponse> ListStudies(const HistoryQueries& history,
                                                    const v1::ListStudiesRequest& request,
                                                    const ShowStudy& show = AsStored);
// NOT_FOUND with reason UNKNOWN_STUDY; DATA_LOSS if the stored question cannot be read.
absl::StatusOr<v1::GetStudyResponse> GetStudy(const HistoryQueries& history, const std::string& id,
                                              const ShowStudy& show = AsStored);
// INVALID_ARGUMENT for an unknown view.
absl::StatusOr<v1::ListPlansResponse> ListPlans(const HistoryQueries& history,
                                                const v1::ListPlansRequest& request);
// NOT_FOUND with reason UNKNOWN_STUDY or UNKNOWN_PLAN.
absl::StatusOr<v1::GetPlanResponse> GetPlan(const HistoryQueries& history,
                                            const v1::GetPlanRequest& request);
// Returns the plan of a rank as the answer of the study has it; null if it has none.
const v1::RankedPlan* AnsweredPlan(const v1::GetStudyResponse& study, int rank);
// Returns NOT_FOUND with reason UNKNOWN_PLAN, which names the ranks that the study has.
absl::Status UnknownPlan(const v1::GetStudyResponse& study, int rank);

// Reads a change of a study's remarks. INVALID_ARGUMENT names every field that is too long or has
// other characters than allowed.
absl::StatusOr<StudyEdit> FromWire(const v1::UpdateStudyRequest& request);

// Read a deletion, and a request to run trials again. INVALID_ARGUMENT for an etag that no study
// has, and for trial numbers that are less than 1 or stated twice.
absl::StatusOr<StudyDeletion> FromWire(const v1::DeleteStudyRequest& request);
absl::StatusOr<StudyReopening> FromWire(const v1::RetryTrialsRequest& request);
v1::DeleteStudyResponse ToWire(const DeletedStudy& deleted, const std::string& study_id);
v1::RetryTrialsResponse ToWire(const ReopenedStudy& reopened);

// Converts a line of a study's journal.
v1::WatchStudyResponse ToWire(const EventRecord& event);

}  // namespace meshwright

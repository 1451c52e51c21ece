#pragma once

#include <functional>
#include <string>

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

// Returns INVALID_ARGUMENT for an unknown state.
absl::StatusOr<v1::ListStudiesResponse> ListStudies(const HistoryQueries& history,
                                                    const v1::ListStudiesRequest& request,
                                                    const ShowStudy& show = AsStored);
// NOT_FOUND with reason UNKNOWN_STUDY; DATA_LOSS if the stored question cannot be read.
absl::StatusOr<v1::GetStudyResponse> GetStudy(const HistoryQueries& history, const std::string& id,
                                              const ShowStudy& show = AsStored);
absl::StatusOr<v1::ListPlansResponse> ListPlans(const HistoryQueries& history,
                                                const v1::ListPlansRequest& request);

// Reads a change of a study's remarks. INVALID_ARGUMENT names every field that is too long or has
// other characters than allowed.
absl::StatusOr<StudyEdit> FromWire(const v1::UpdateStudyRequest& request);

// Converts a line of a study's journal.
v1::WatchStudyResponse ToWire(const EventRecord& event);

}  // namespace meshwright

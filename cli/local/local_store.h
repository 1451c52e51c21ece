#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "recorder/history_records.h"
#include "recorder/records.h"
#include "server/engine/stored_trials.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// An embedded search touches the store only at these moments. Each call opens and closes the store,
// so that a search of hours does not keep anybody else out. Errors say how to go on without the
// store.

struct LocalStudy {
  StudyRecord record = {};
  ResolvedStudy asked = {};
  HistorySource history = {};  // the state of the store when the study begins
};

// Stores a new running study under an id of its own, and marks studies whose process is gone as
// interrupted.
absl::StatusOr<LocalStudy> BeginLocalStudy(const std::string& store, ResolvedStudy asked,
                                           const Knowledge& knowledge);
// The reason for which a study of an ended process is resumed. One that was being cancelled can
// only end.
enum class LeftStudy { kToGoOn, kToEnd };

// Resumes an interrupted study with its own request. NOT_FOUND; FAILED_PRECONDITION with reason
// STUDY_NOT_INTERRUPTED if it has ended, if a process runs it, or if it was being cancelled.
absl::StatusOr<LocalStudy> TakeLocalStudy(const std::string& store, const std::string& id,
                                          LeftStudy wanted, const Knowledge& knowledge);
// Puts a study that was resumed back as interrupted.
absl::Status LeaveLocalStudy(const std::string& store, const std::string& id);
// Opens the journal of a study's trials.
absl::StatusOr<std::unique_ptr<StoredTrials>> OpenLocalTrials(const std::string& store,
                                                              const LocalStudy& study,
                                                              const Knowledge& knowledge,
                                                              const std::stop_token& cancel);
absl::StatusOr<StudyRecord> EndLocalStudy(const std::string& store, const StudyEnding& ending,
                                          const std::optional<CalibrationRecord>& calibration);

// Returns what the store has measured so far, or up to a sequence number. The default store may be
// missing, and one from before there were measurements has nothing. Another one that is missing or
// cannot be read is left out, and a note on stderr says so. `knowledge` must outlive the result.
absl::StatusOr<HistorySource> LocalHistory(const std::string& store, const Knowledge& knowledge,
                                           std::optional<std::int64_t> up_to_sequence);

// Returns what shows a study of the store as the next writer will mark it
// (Recorder::InterruptOrphans): a killed process leaves its studies in the store as they were.
std::function<v1::Study(StudyRecord)> ShowStudiesOf(const std::string& store);

// Answer as a server would. The default store may be missing, and is empty then. A study whose
// process is gone reads as interrupted.
absl::StatusOr<v1::ListStudiesResponse> ListLocalStudies(const std::string& store,
                                                         const v1::ListStudiesRequest& request);
// Deletes a study that has ended, as a server would.
absl::StatusOr<v1::DeleteStudyResponse> DeleteLocalStudy(const std::string& store,
                                                         const v1::DeleteStudyRequest& request);
// Opens failed trials of a study again, and leaves it interrupted, to be resumed.
absl::StatusOr<v1::RetryTrialsResponse> ReopenLocalStudy(const std::string& store,
                                                         const v1::RetryTrialsRequest& request);
// Changes what people say about a study.
absl::StatusOr<v1::Study> UpdateLocalStudy(const std::string& store,
                                           const v1::UpdateStudyRequest& request);
absl::StatusOr<v1::ListPlansResponse> ListLocalPlans(const std::string& store,
                                                     const v1::ListPlansRequest& request);
absl::StatusOr<v1::ListTrialsResponse> ListLocalTrials(const std::string& store,
                                                       const v1::ListTrialsRequest& request);
absl::StatusOr<v1::ListAttemptsResponse> ListLocalAttempts(const std::string& store,
                                                           const v1::ListAttemptsRequest& request);
absl::StatusOr<v1::GetStudyResponse> GetLocalStudy(const std::string& store, const std::string& id);

}  // namespace meshwright

#pragma once

#include <cstdint>
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
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// The moments at which an embedded search touches the store. Each opens and closes it, so that a
// search of hours keeps nobody else out. Errors say how to go on without the store.

struct LocalStudy {
  StudyRecord record = {};
  StudyRequest request = {};
  HistorySource history = {};  // as the store is when the study begins
};

// Stores a new running study under an id of its own, and takes studies whose process is gone as
// interrupted.
absl::StatusOr<LocalStudy> BeginLocalStudy(const std::string& store, const StudyRequest& request,
                                           const Knowledge& knowledge);
// What a study of a process that is gone is taken up for. One that was being cancelled can but end.
enum class LeftStudy { kToGoOn, kToEnd };

// Takes up a study that was interrupted, as it was asked. NOT_FOUND; FAILED_PRECONDITION,
// STUDY_NOT_INTERRUPTED: it has ended, or a process runs it, or it was being cancelled.
absl::StatusOr<LocalStudy> TakeLocalStudy(const std::string& store, const std::string& id,
                                          LeftStudy wanted, const Knowledge& knowledge);
// Puts it back.
absl::Status LeaveLocalStudy(const std::string& store, const std::string& id);
// The journal of its trials.
absl::StatusOr<std::unique_ptr<StoredTrials>> OpenLocalTrials(const std::string& store,
                                                              const LocalStudy& study,
                                                              const Knowledge& knowledge,
                                                              const std::stop_token& cancel);
absl::StatusOr<StudyRecord> EndLocalStudy(const std::string& store, const StudyEnding& ending,
                                          const std::optional<CalibrationRecord>& calibration);

// What a store, which is only read, has measured until now, or up to a number. A store that does
// not exist, or is older than measurements, has nothing; one that cannot be read is left out with a
// note on stderr. `knowledge` outlives it.
absl::StatusOr<HistorySource> LocalHistory(const std::string& store, const Knowledge& knowledge,
                                           std::optional<std::int64_t> up_to_sequence);

// What a server would answer. A store that does not exist is an empty one. A study whose process is
// gone reads as interrupted.
absl::StatusOr<v1::ListStudiesResponse> ListLocalStudies(const std::string& store, int page_size,
                                                         std::string_view page_token);
absl::StatusOr<v1::ListPlansResponse> ListLocalPlans(const std::string& store,
                                                     const v1::ListPlansRequest& request);
absl::StatusOr<v1::ListTrialsResponse> ListLocalTrials(const std::string& store,
                                                       const v1::ListTrialsRequest& request);
absl::StatusOr<v1::ListAttemptsResponse> ListLocalAttempts(const std::string& store,
                                                           const v1::ListAttemptsRequest& request);
absl::StatusOr<v1::GetStudyResponse> GetLocalStudy(const std::string& store, const std::string& id);

}  // namespace meshwright

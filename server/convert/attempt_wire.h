#pragma once

#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "server/engine/history_queries.h"

namespace meshwright {

// Answers TuningService.ListAttempts from a store. Returns INVALID_ARGUMENT for a trial below 1.
absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(const HistoryQueries& history,
                                                      const v1::ListAttemptsRequest& request);

// Answers TuningService.GetTrial from a store.
absl::StatusOr<v1::GetTrialResponse> GetTrial(const HistoryQueries& history,
                                              const v1::GetTrialRequest& request);

// Answers TuningService.GetTrialLogs from the folder of the study's jobs, or from what the store
// has kept if that is gone. INVALID_ARGUMENT names every field beyond its limits.
absl::StatusOr<v1::GetTrialLogsResponse> GetTrialLogs(const HistoryQueries& history,
                                                      const v1::GetTrialLogsRequest& request);

}  // namespace meshwright

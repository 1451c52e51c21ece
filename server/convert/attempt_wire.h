#pragma once

#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "server/engine/history_queries.h"

namespace meshwright {

// Answers TuningService.ListAttempts from a store. Returns INVALID_ARGUMENT for a trial below 1.
absl::StatusOr<v1::ListAttemptsResponse> ListAttempts(const HistoryQueries& history,
                                                      const v1::ListAttemptsRequest& request);

}  // namespace meshwright

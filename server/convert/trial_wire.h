#pragma once

#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "recorder/recorder.h"
#include "server/engine/history_queries.h"

namespace meshwright {

// Gives what TuningService.ListTrials answers from a store: the trials of a study, page by page.
// INVALID_ARGUMENT for an unknown state, outcome or order; NOT_FOUND: UNKNOWN_STUDY.
absl::StatusOr<v1::ListTrialsResponse> ListTrials(const HistoryQueries& history,
                                                  const v1::ListTrialsRequest& request);

// Gives what TuningService.ListPlans answers from a page of a study's ranked plans.
absl::StatusOr<v1::ListPlansResponse> ToWire(const PlanPage& page);

}  // namespace meshwright

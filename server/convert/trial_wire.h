#pragma once

#include "absl/status/statusor.h"
#include "meshwright/v1/service.pb.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"
#include "server/engine/history_queries.h"

namespace meshwright {

// Answers TuningService.ListTrials from a store, page by page. Returns INVALID_ARGUMENT for an
// unknown state, outcome or order, and NOT_FOUND with reason UNKNOWN_STUDY.
absl::StatusOr<v1::ListTrialsResponse> ListTrials(const HistoryQueries& history,
                                                  const v1::ListTrialsRequest& request);

// Answers TuningService.ListParetoTrials from a store, page by page.
absl::StatusOr<v1::ListParetoTrialsResponse> ListParetoTrials(
    const HistoryQueries& history, const v1::ListParetoTrialsRequest& request);

absl::StatusOr<v1::Trial> ToWire(const TrialRecord& record);
absl::StatusOr<v1::RankedPlan> ToWire(const PlanRecord& record);

}  // namespace meshwright

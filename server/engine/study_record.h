#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/records.h"
#include "server/engine/engine_options.h"
#include "server/tuner/question/resolved_study.h"
#include "server/tuner/question/study_answer.h"

namespace meshwright {

// Returns the row of a new study: the question, and what lists show of it. The caller sets `id`,
// `state`, `owner` and the times.
StudyRecord NewStudyRecord(const ResolvedStudy& study, const StudyCodec& codec);

// Returns the state and the outcome with which a run is stored:
//   state      outcome
//
//   succeeded  improved, baseline_best, all_trials_failed, no_feasible_plan;
//              deadline_cut if the deadline ended it
//
//   cancelled  cancelled, with the best plan so far if there is one
//
//   failed     deadline_cut if nothing was found by then;
//              else failed, with the error's message
StudyEnding EndingOf(const std::string& id, const absl::StatusOr<StudyAnswer>& answer,
                     const StudyCodec& codec, std::int64_t time_ms);

// Returns what the store keeps of the calibration that an answer relies on; nullopt if nothing was
// learnt.
std::optional<CalibrationRecord> CalibrationOf(const absl::StatusOr<StudyAnswer>& answer,
                                               const StudyCodec& codec, std::int64_t time_ms);

// Returns the error of a study in the form that the store keeps: "UNIMPLEMENTED
// MIXED_CLUSTER_SEARCH: <message>", or "INTERNAL: <message>" for an error without a reason. Code,
// reason and message survive, so that a reader of the study gets the status that an embedded search
// would return.
std::string ErrorText(const absl::Status& status);
// Returns nullopt for a text that ErrorText did not write.
std::optional<absl::Status> ParseErrorText(std::string_view text);

StudyEnding FailedEnding(const std::string& id, const absl::Status& status);
StudyEnding CancelledEnding(const std::string& id);

// Returns true if the study was stopped from outside.
bool WasCut(const absl::StatusOr<StudyAnswer>& answer);

}  // namespace meshwright

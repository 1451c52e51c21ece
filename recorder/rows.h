#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "recorder/history_records.h"
#include "recorder/records.h"
#include "recorder/trial_records.h"

struct sqlite3;

namespace meshwright {

// Row-level steps that the Recorder's transactions are made of; internal to recorder/. The caller
// holds the transaction.

absl::Status UnknownStudy(std::string_view id);

// So that an empty list means an empty study, and never a mistyped id.
absl::Status CheckStudyExists(sqlite3* connection, std::string_view id);

// NOT_FOUND for an unknown study, FAILED_PRECONDITION with reason STUDY_ENDED for a terminal one.
absl::Status CheckStudyLives(sqlite3* connection, std::string_view id);

absl::Status InsertPlans(sqlite3* connection, std::span<const PlanRecord> plans);

// Gives each event its study's next revision.
absl::StatusOr<std::vector<std::int64_t>> InsertEvents(sqlite3* connection,
                                                       std::span<const EventRecord> events);

// The question's row number, with the rows of its cluster and chip; `time_ms`: when it was seen. A
// question whose digest is there stays as it is.
absl::StatusOr<std::int64_t> InsertQuestion(sqlite3* connection, const QuestionRecord& question,
                                            std::int64_t time_ms);

// Gives the sequence. ALREADY_EXISTS with reason MEASUREMENT_EXISTS. Looks at no request_id.
absl::StatusOr<std::int64_t> InsertMeasurement(sqlite3* connection,
                                               const MeasurementRecord& measurement);

// By id, with the question's bytes.
absl::StatusOr<MeasurementRecord> ReadMeasurement(sqlite3* connection, std::string_view id);

absl::StatusOr<TrialRecord> ReadTrial(sqlite3* connection, std::string_view study_id, int number);

absl::StatusOr<AttemptRecord> ReadAttempt(sqlite3* connection, std::string_view id);

// Writes down the next attempt at a trial and ends one that has not ended.
absl::StatusOr<AttemptRecord> InsertAttempt(sqlite3* connection, const AttemptIntent& intent);

// As Recorder::FinishAttempt.
absl::StatusOr<AttemptRecord> EndAttempt(sqlite3* connection, const AttemptEnding& ending);

}  // namespace meshwright

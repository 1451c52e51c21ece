// The Recorder's call that marks measurements as wrong.
#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/rows.h"
#include "recorder/sql.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

// Takes the next number from the counter of the measurements. SQLite keeps that counter as a row of
// sqlite_sequence, which a measurement has made before anything can be retracted
// (sqlite.org/autoinc.html).
absl::StatusOr<std::int64_t> TakeSequence(sqlite3* connection) {
  RETURN_IF_ERROR(
      Execute(connection, "UPDATE sqlite_sequence SET seq = seq + 1 WHERE name = 'measurements'"));
  return QueryInteger(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'measurements'");
}

}  // namespace

absl::Status InsertRetraction(sqlite3* connection, std::string_view measurement_id,
                              const Retraction& retraction) {
  ASSIGN_OR_RETURN(const std::int64_t sequence, TakeSequence(connection));
  return Run(connection, "INSERT INTO retractions VALUES (?1, ?2, ?3, ?4)", sequence,
             measurement_id, retraction.time_ms, retraction.reason);
}

absl::StatusOr<MeasurementRecord> Recorder::RetractMeasurement(std::string_view id,
                                                               const Retraction& retraction) {
  if (const auto mistake = RetractionReasonMistake(retraction.reason)) {
    return InvalidFields({{.field = "reason", .description = *mistake}});
  }
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  ASSIGN_OR_RETURN(MeasurementRecord measurement, GetMeasurement(id));
  if (measurement.retraction.has_value()) {
    if (measurement.retraction->reason == retraction.reason) return measurement;
    return WithReason(absl::AlreadyExistsError(fmt::format(
                          "measurement '{}' is retracted with another reason, which stays: \"{}\"",
                          id, measurement.retraction->reason)),
                      "MEASUREMENT_RETRACTED");
  }
  RETURN_IF_ERROR(InsertRetraction(connection_.get(), id, retraction));
  ASSIGN_OR_RETURN(measurement, GetMeasurement(id));
  RETURN_IF_ERROR(transaction.Commit());
  return measurement;
}

}  // namespace meshwright

// The Recorder's calls for calibrations.
#include <fmt/format.h>

#include <utility>

#include "recorder/history_records.h"
#include "recorder/page_token.h"
#include "recorder/recorder.h"
#include "recorder/rows.h"
#include "recorder/sql/connection.h"
#include "recorder/sql/sql.h"
#include "search_space/base/status.h"

namespace meshwright {
namespace {

constexpr char kCalibrationColumns[] =
    "id, chip, framework, framework_version, job_fingerprint, last_sequence, measurement_count, "
    "time_ratio, memory_ratio, model_version, create_time_ms";
constexpr int kContentColumn = 11;

CalibrationRecord ReadRow(const Statement& row, bool has_content) {
  return {.id = row.Text(0),
          .chip = row.Text(1),
          .framework = row.Text(2),
          .framework_version = row.Text(3),
          .job_fingerprint = row.Text(4),
          .last_sequence = row.Integer(5),
          .measurement_count = static_cast<int>(row.Integer(6)),
          .time_ratio = row.OptionalReal(7),
          .memory_ratio = row.OptionalReal(8),
          .model_version = row.Text(9),
          .create_time_ms = row.Integer(10),
          .content = has_content ? row.Text(kContentColumn) : ""};
}

}  // namespace

absl::Status Recorder::InsertCalibration(const CalibrationRecord& calibration) {
  if (calibration.id.empty()) {
    return absl::InvalidArgumentError("calibration id = ''; must not be empty");
  }
  ASSIGN_OR_RETURN(Transaction transaction, Transaction::Begin(connection_.get()));
  RETURN_IF_ERROR(
      Run(connection_.get(),
          fmt::format("INSERT INTO calibrations ({}, content) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, "
                      "?8, ?9, ?10, ?11, ?12) ON CONFLICT DO NOTHING",
                      kCalibrationColumns),
          calibration.id, calibration.chip, calibration.framework, calibration.framework_version,
          calibration.job_fingerprint, calibration.last_sequence, calibration.measurement_count,
          calibration.time_ratio, calibration.memory_ratio, calibration.model_version,
          calibration.create_time_ms, Blob{calibration.content}));
  return transaction.Commit();
}

absl::StatusOr<CalibrationRecord> Recorder::GetCalibration(std::string_view id) const {
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(
          connection_.get(),
          fmt::format("SELECT {}, content FROM calibrations WHERE id = ?1", kCalibrationColumns)));
  RETURN_IF_ERROR(query.Bind(id));
  ASSIGN_OR_RETURN(const bool is_there, query.Step());
  if (is_there) return ReadRow(query, true);
  return WithReason(absl::NotFoundError(fmt::format("calibration '{}' does not exist", id)),
                    "UNKNOWN_CALIBRATION");
}

absl::StatusOr<CalibrationPage> Recorder::ListCalibrations(const std::optional<std::string>& chip,
                                                           int page_size,
                                                           std::string_view page_token) const {
  ASSIGN_OR_RETURN(const int size, PageSize(page_size, "page_size"));
  const std::string list =
      chip.has_value() ? fmt::format("calibrations/{}", *chip) : "calibrations";
  std::string where = chip.has_value() ? "WHERE chip = ?1" : "WHERE true";
  PageKey after;
  if (!page_token.empty()) {
    ASSIGN_OR_RETURN(after, DecodePageToken(list, page_token));
    where += " AND (create_time_ms, id) < (?2, ?3)";
  }
  ASSIGN_OR_RETURN(
      Statement query,
      Statement::Prepare(connection_.get(),
                         fmt::format("SELECT {} FROM calibrations {} ORDER BY create_time_ms DESC, "
                                     "id DESC LIMIT ?4",
                                     kCalibrationColumns, where)));
  RETURN_IF_ERROR(query.Bind(chip, after.number, after.text, size + 1));
  ASSIGN_OR_RETURN(auto rows, ReadPage<CalibrationRecord>(query, size, [](const Statement& row) {
                     return ReadRow(row, false);
                   }));
  CalibrationPage page = {.calibrations = std::move(rows.records)};
  if (rows.has_more) {
    const CalibrationRecord& last = page.calibrations.back();
    page.next_page_token = EncodePageToken(list, {.number = last.create_time_ms, .text = last.id});
  }
  return page;
}

}  // namespace meshwright

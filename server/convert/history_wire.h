#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "meshwright/v1/history.pb.h"
#include "recorder/history_records.h"
#include "recorder/store_access.h"
#include "recorder/transfer.h"
#include "server/engine/engine_options.h"
#include "server/engine/history_queries.h"
#include "server/tuner/question/knowledge.h"

namespace meshwright {

// These functions answer requests about the history with messages. A server and a command that has
// the store open itself give the same answers.

// Converts a measurement without its question and plan.
v1::Measurement ToWire(const MeasurementRecord& record);

absl::StatusOr<v1::ListJobReportsResponse> ListJobReports(const HistoryQueries& history,
                                                          const v1::ListJobReportsRequest& request,
                                                          const Knowledge& knowledge);
absl::StatusOr<v1::ListMeasurementsResponse> ListMeasurements(
    const HistoryQueries& history, const v1::ListMeasurementsRequest& request);
// Answers with one measurement, including its question and plan.
absl::StatusOr<v1::GetMeasurementResponse> GetMeasurement(const HistoryQueries& history,
                                                          const std::string& id,
                                                          const StudyCodec& codec);
absl::StatusOr<v1::ListCalibrationsResponse> ListCalibrations(
    const HistoryQueries& history, const v1::ListCalibrationsRequest& request);
absl::StatusOr<v1::GetCalibrationResponse> GetCalibration(const HistoryQueries& history,
                                                          const std::string& id);

// Calls `sink` with the lines, line ends included, in parts of about 64 KiB. Stops with the error
// of `sink` if there is one.
absl::Status ExportHistory(const HistoryQueries& history, const v1::ExportHistoryRequest& request,
                           const std::function<absl::Status(std::string part)>& sink);

// Reads the options of an import; ignores `lines`.
absl::StatusOr<ImportOptions> ReadImportOptions(const v1::ImportHistoryRequest& request);
absl::StatusOr<v1::ImportHistoryResponse> ImportHistory(const StoreAccess& store,
                                                        const LineSource& lines,
                                                        const ImportOptions& options);

// INVALID_ARGUMENT for a time of the filter that is none.
absl::StatusOr<v1::ListAuditEventsResponse> ListAuditEvents(
    const HistoryQueries& history, const v1::ListAuditEventsRequest& request);

// Copies the store to a new file beside it that is named by the time.
absl::StatusOr<v1::BackupStoreResponse> BackupStore(const HistoryQueries& history,
                                                    std::int64_t time_ms);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "meshwright/v1/history.pb.h"
#include "recorder/history_records.h"
#include "recorder/recorder.h"
#include "recorder/transfer.h"
#include "server/engine/engine.h"
#include "server/engine/study_codec.h"

namespace meshwright {

// The store's history as messages; what a server and an embedded command answer alike.

// Without the question and the plan.
v1::Measurement ToWire(const MeasurementRecord& record);

absl::StatusOr<v1::ListJobReportsResponse> ListJobReports(const Recorder& store,
                                                          const v1::ListJobReportsRequest& request);
absl::StatusOr<v1::ListMeasurementsResponse> ListMeasurements(
    const Recorder& store, const v1::ListMeasurementsRequest& request);
// With the question and the plan.
absl::StatusOr<v1::GetMeasurementResponse> GetMeasurement(const Recorder& store,
                                                          const std::string& id,
                                                          const StudyCodec& codec);
absl::StatusOr<v1::ListCalibrationsResponse> ListCalibrations(
    const Recorder& store, const v1::ListCalibrationsRequest& request);
absl::StatusOr<v1::GetCalibrationResponse> GetCalibration(const Recorder& store,
                                                          const std::string& id);

// Calls `sink` with the lines, line ends included, in parts of about 64 KiB; stops with its error.
absl::Status ExportHistory(const Recorder& store, const v1::ExportHistoryRequest& request,
                           const std::function<absl::Status(std::string part)>& sink);

// The options of an import; `lines` is not looked at.
absl::StatusOr<ImportOptions> ReadImportOptions(const v1::ImportHistoryRequest& request);
absl::StatusOr<v1::ImportHistoryResponse> ImportHistory(Recorder& store, const LineSource& lines,
                                                        const ImportOptions& options);

// Copies the store to a new file beside it that is named by the time.
absl::StatusOr<v1::BackupStoreResponse> BackupStore(const Recorder& store, std::int64_t time_ms);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/history.pb.h"
#include "recorder/history_records.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"
#include "server/tuner/question/study_request.h"

namespace meshwright {

// These functions answer job reports with messages. A server and a command that has the store open
// itself give the same answers.

// Everything that is needed to answer job reports. `time_ms` is the current time.
struct ReportContext {
  const Knowledge& knowledge;
  StoreAccess store = {};
  std::int64_t time_ms = 0;
  // Returns the measurements as of now; null: they are read from the store.
  std::function<absl::StatusOr<HistorySource>()> history = {};
  // EngineHooks.on_measurement.
  std::function<void(const MeasurementRecord&)> on_measurement = {};
};

inline constexpr int kMaxReports = 1000;  // in one batch

// Keeps a report. Returns INVALID_ARGUMENT with every bad field of the request, NOT_FOUND if the
// study does not exist, the errors of KeepJobReports, and FAILED_PRECONDITION with reason
// STUDY_WITHOUT_PLANS if it has no answer.
absl::StatusOr<v1::CreateJobReportResponse> CreateJobReport(
    const v1::CreateJobReportRequest& request, const ReportContext& context);

// Keeps all reports in their order, or none. The paths of bad fields start with requests[<index>].
absl::StatusOr<v1::BatchCreateJobReportsResponse> BatchCreateJobReports(
    const v1::BatchCreateJobReportsRequest& request, const ReportContext& context);

// Returns the mistakes of reports whose JSON has the mistakes `found`: those, and all that can be
// found without the studies that the reports name. Used by a command that cannot send such
// requests.
absl::Status ReportMistakes(const v1::CreateJobReportRequest& request, const Knowledge& knowledge,
                            std::vector<FieldViolation> found);
absl::Status ReportMistakes(const v1::BatchCreateJobReportsRequest& request,
                            const Knowledge& knowledge, std::vector<FieldViolation> found);

}  // namespace meshwright

#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "meshwright/v1/history.pb.h"
#include "recorder/store_access.h"
#include "search_space/base/status.h"
#include "server/tuner/question/knowledge.h"
#include "server/tuner/question/problem.h"

namespace meshwright {

// Job reports as messages, alike for a server and for a command that has the store open itself.

// Everything that answering them takes. `time_ms` is now.
struct ReportContext {
  const Knowledge& knowledge;
  StoreAccess store = {};
  std::int64_t time_ms = 0;
};

inline constexpr int kMostReports = 1000;  // in one batch

// INVALID_ARGUMENT with every bad field of the request; NOT_FOUND for a study that is not there,
// FAILED_PRECONDITION with reason STUDY_WITHOUT_PLANS for one that has no answer.
absl::StatusOr<v1::CreateJobReportResponse> CreateJobReport(
    const v1::CreateJobReportRequest& request, const ReportContext& context);

// All or none, in their order; paths of bad fields start with requests[<index>].
absl::StatusOr<v1::BatchCreateJobReportsResponse> BatchCreateJobReports(
    const v1::BatchCreateJobReportsRequest& request, const ReportContext& context);

// Returns what is wrong with reports whose JSON has the mistakes `found`: those, and all that shows
// without the studies that the reports name. For a command that cannot send such requests.
absl::Status ReportMistakes(const v1::CreateJobReportRequest& request, const Knowledge& knowledge,
                            std::vector<FieldViolation> found);
absl::Status ReportMistakes(const v1::BatchCreateJobReportsRequest& request,
                            const Knowledge& knowledge, std::vector<FieldViolation> found);

}  // namespace meshwright

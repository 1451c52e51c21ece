#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "cli/input/input_files.h"
#include "cli/program/program.h"
#include "meshwright/v1/history.pb.h"

namespace meshwright {

// Keeps reports of jobs, here or at the server. Reports with mistakes are sent nowhere, and all
// their mistakes are returned. `who` holds the store meanwhile.
absl::StatusOr<v1::CreateJobReportResponse> KeepReport(
    const Parsed<v1::CreateJobReportRequest>& asked, const GlobalFlags& flags,
    const std::string& who);
absl::StatusOr<v1::BatchCreateJobReportsResponse> KeepReports(
    const Parsed<v1::BatchCreateJobReportsRequest>& asked, const GlobalFlags& flags,
    const std::string& who);

}  // namespace meshwright
